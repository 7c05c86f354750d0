// SPDX-License-Identifier: Apache-2.0
#include "core/watch/own_frames.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <sstream>
#include <string_view>
#include <vector>

namespace hora {
namespace {

constexpr std::size_t kMost = 4;
constexpr std::array<std::string_view, 4> kPackages{"/site-packages/", "/dist-packages/", "/lib/python3",
                                                    "\"<frozen "};

bool is_of_a_shared_object(std::string_view path) {
  return path.ends_with(".so") || path.find(".so.") != std::string_view::npos;
}

/// Whether it is of a package of Python's, or in a shared object: "hora::f() in a/libhora.so.0",
/// "a/libc.so.6(+0x2724a)[0x7f1413e4524a]".
bool is_of_a_library(std::string_view frame) {
  if (!frame.starts_with("File \"")) {
    const auto in = frame.rfind(" in ");
    return is_of_a_shared_object(in == std::string_view::npos ? frame.substr(0, frame.find('('))
                                                              : frame.substr(in + 4));
  }
  return std::any_of(kPackages.begin(), kPackages.end(),
                     [&](std::string_view part) { return frame.find(part) != std::string_view::npos; });
}

/// `File "a/train.py", line 31 in evaluate` as "train.py:31 in evaluate"; another one without its address.
std::string in_short(const std::string& frame) {
  constexpr std::string_view kFile = "File \"";
  constexpr std::string_view kLine = "\", line ";
  const auto line = frame.rfind(kLine);
  if (!frame.starts_with(kFile) || line == std::string::npos) return frame.substr(0, frame.find("[0x"));
  const std::string path = frame.substr(kFile.size(), line - kFile.size());
  const std::string rest = frame.substr(line + kLine.size());
  const auto in = rest.find(' ');
  return fmt::format("{}:{}{}", path.substr(path.rfind('/') + 1), rest.substr(0, in),
                     in == std::string::npos ? "" : rest.substr(in));
}

}  // namespace

std::string own_frames(const std::string& stack) {
  std::vector<std::string> own;
  std::istringstream lines(stack);
  for (std::string line; std::getline(lines, line);) {
    line.erase(0, line.find_first_not_of(' '));
    if (!line.empty() && !is_of_a_library(line)) own.push_back(in_short(line));
  }
  if (own.empty()) return stack;
  std::string text;
  for (std::size_t i = 0; i < std::min(own.size(), kMost); ++i)
    text += (i == 0 ? "" : i == 1 ? ", called from " : ", ") + own[i];
  if (own.size() > kMost) text += fmt::format(" and {} more", own.size() - kMost);
  return text;
}

}  // namespace hora
