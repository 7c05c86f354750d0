// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runner/command_line/options.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace hora::hrun {

/// The settings of a command line that is right.
inline Options accepted(const std::vector<std::string>& words) {
  const Parsed parsed = parse_options(words);
  EXPECT_TRUE(parsed.options) << (parsed.answer ? parsed.answer->text : "");
  return parsed.options.value_or(Options{});
}

/// The whole text of a refusal; its exit code is 2.
inline std::string whole_refusal(const std::vector<std::string>& words) {
  const Parsed parsed = parse_options(words);
  EXPECT_TRUE(parsed.answer);
  if (!parsed.answer) return "";
  EXPECT_EQ(parsed.answer->exit_code, 2);
  return parsed.answer->text;
}

/// Its last line, without the hint that ends it where the words were wrong.
inline std::string refusal(const std::vector<std::string>& words) {
  const std::string text = whole_refusal(words);
  const std::string line = text.substr(std::min(text.rfind("hrun: "), text.size()));
  return line.substr(0, std::min(line.rfind("; hrun --help says more\n"), line.size() - 1));
}

}  // namespace hora::hrun
