// SPDX-License-Identifier: Apache-2.0
#include "core/watch/python_frames.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <sstream>
#include <string_view>
#include <vector>

namespace hora {
namespace {

constexpr std::size_t kMost = 4;
constexpr std::array<std::string_view, 4> kLibraries{"/site-packages/", "/dist-packages/", "/lib/python3",
                                                     "<frozen "};

struct Frame {
  std::string path;
  std::string line;
  std::string function;
};

/// Of `File "train.py", line 31 in evaluate`.
std::optional<Frame> frame_of(std::string_view text) {
  constexpr std::string_view kFile = "File \"";
  constexpr std::string_view kLine = "\", line ";
  const auto begin = text.find_first_not_of(' ');
  if (begin == std::string_view::npos || !text.substr(begin).starts_with(kFile)) return std::nullopt;
  const auto path = begin + kFile.size();
  const auto line = text.rfind(kLine);
  const auto in = line == std::string_view::npos ? line : text.find(" in ", line);
  if (in == std::string_view::npos || line < path) return std::nullopt;
  const auto number = line + kLine.size();
  return Frame{std::string(text.substr(path, line - path)), std::string(text.substr(number, in - number)),
               std::string(text.substr(in + 4))};
}

bool is_of_a_library(const Frame& frame) {
  return std::any_of(kLibraries.begin(), kLibraries.end(),
                     [&](std::string_view part) { return frame.path.find(part) != std::string::npos; });
}

std::string describe(const Frame& frame) {
  return fmt::format("{}:{} in {}", frame.path.substr(frame.path.rfind('/') + 1), frame.line, frame.function);
}

}  // namespace

std::string own_python_frames(const std::string& stack) {
  std::vector<Frame> frames;
  std::istringstream lines(stack);
  for (std::string line; std::getline(lines, line);) {
    const auto frame = frame_of(line);
    if (!frame) return stack;
    frames.push_back(*frame);
  }
  if (!std::all_of(frames.begin(), frames.end(), is_of_a_library)) std::erase_if(frames, is_of_a_library);
  std::string text;
  for (std::size_t i = 0; i < std::min(frames.size(), kMost); ++i)
    text += (i == 0 ? "" : i == 1 ? ", called from " : ", ") + describe(frames[i]);
  if (frames.size() > kMost) text += fmt::format(" and {} more", frames.size() - kMost);
  return text;
}

}  // namespace hora
