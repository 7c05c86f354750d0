// SPDX-License-Identifier: Apache-2.0
#include "runner/launch/stderr_tail.h"

#include <algorithm>
#include <array>
#include <sstream>

namespace hora::hrun {

void StderrTail::watch(std::vector<pollfd>& events) const {
  if (!source_.ended()) events.push_back({source_.fd(), POLLIN, 0});
}

void StderrTail::read() {
  std::array<char, 4096> buffer{};
  while (!source_.ended()) {
    const std::size_t count = source_.read(buffer);
    if (count == 0) return;
    text_.append(buffer.data(), count);
    if (text_.size() > kMost) text_.erase(0, text_.size() - kMost);
  }
}

void StderrTail::clear() {
  read();
  text_.clear();
}

std::string StderrTail::quoted() const {
  std::istringstream lines(text_);
  std::string out;
  for (std::string line; std::getline(lines, line);) {
    std::replace_if(line.begin(), line.end(), [](unsigned char c) { return c < ' ' || c == 0x7f; }, ' ');
    while (!line.empty() && line.back() == ' ') line.pop_back();
    if (!line.empty()) out += (out.empty() ? "" : "; ") + line;
  }
  return out;
}

}  // namespace hora::hrun
