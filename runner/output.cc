// SPDX-License-Identifier: Apache-2.0
#include "runner/output.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

namespace hora {
namespace {

constexpr std::size_t kMostLine = 64 * 1024;
constexpr std::size_t kTail = 20;
constexpr std::array<int, 6> kColours{36, 33, 32, 35, 34, 31};
constexpr const char* kClearLine = "\r\033[K";

}  // namespace

void LineSplitter::feed(std::string_view bytes, const std::function<void(Line)>& take) {
  for (const char c : bytes) {
    if (returned_) {
      returned_ = false;
      take({std::exchange(partial_, {}), c != '\n'});
      if (c == '\n') continue;
    }
    if (c == '\n') {
      take({std::exchange(partial_, {}), false});
    } else if (c == '\r') {
      returned_ = true;
    } else {
      partial_ += c;
      if (partial_.size() == kMostLine) take({std::exchange(partial_, {}), false});
    }
  }
}

void LineSplitter::finish(const std::function<void(Line)>& take) {
  returned_ = false;
  if (!partial_.empty()) take({std::exchange(partial_, {}), false});
}

std::string Painter::paint(int rank, const Line& line) {
  if (line.overwritten && !terminal_) return {};  // in a file, only what stays
  std::string out = bar_ ? kClearLine : "";
  if (prefix_) {
    const std::string label = fmt::format("[{:>{}}]", rank, fmt::to_string(ranks_ - 1).size());
    const int colour = kColours.at(static_cast<std::size_t>(rank) % kColours.size());
    out += colour_ ? fmt::format("\033[{}m{}\033[0m ", colour, label) : label + " ";
  }
  out += line.text;
  bar_ = line.overwritten;
  if (!line.overwritten) out += '\n';
  return out;
}

void Tail::add(const std::string& line) {
  lines_.push_back(line);
  if (lines_.size() > kTail) lines_.pop_front();
}

}  // namespace hora
