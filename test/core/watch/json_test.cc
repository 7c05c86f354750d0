// SPDX-License-Identifier: Apache-2.0
#include "core/watch/json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace hora {
namespace {

TEST(Quoted, IsJsonForAnyText) {
  for (const std::string text : {"plain", "\"quoted\" \\ \n\t", "gr\u00FC\u00DFe \u20AC \U0001F600", ""})
    EXPECT_EQ(nlohmann::json::parse(hora::json_string(text)), text);
}

TEST(Quoted, ReplacesWhatIsNotUtf8) {
  for (const std::string text :
       {"\xFF", "\xC0\x80", "\xE2\x82", "\xED\xA0\x80", "\xF8\x88\x80\x80\x80", "\x80"}) {
    const auto parsed = nlohmann::json::parse(hora::json_string("a" + text + "b")).get<std::string>();
    EXPECT_TRUE(parsed.starts_with("a\uFFFD") && parsed.ends_with("b")) << parsed;
  }
}

}  // namespace
}  // namespace hora
