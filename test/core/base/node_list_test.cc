// SPDX-License-Identifier: Apache-2.0
#include "core/base/node_list.h"

#include <hora/status.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace hora {
namespace {

using Names = std::vector<std::string>;

std::string why_no_list(const std::string& text) {
  try {
    static_cast<void>(expand_node_list(text));
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::invalid_argument);
    return error.what();
  }
  return "";
}

TEST(NodeList, IsExpandedAsScontrolDoes) {
  EXPECT_EQ(expand_node_list("n1"), Names{"n1"});
  EXPECT_EQ(expand_node_list("a,b"), (Names{"a", "b"}));
  EXPECT_EQ(expand_node_list("gnode[10,20-22]"), (Names{"gnode10", "gnode20", "gnode21", "gnode22"}));
  EXPECT_EQ(expand_node_list("n[008-011],login"), (Names{"n008", "n009", "n010", "n011", "login"}));
  EXPECT_EQ(expand_node_list("n[9-11]"), (Names{"n9", "n10", "n11"}));
  EXPECT_EQ(expand_node_list("r[1-2]n[01-02]-ib"), (Names{"r1n01-ib", "r1n02-ib", "r2n01-ib", "r2n02-ib"}));
  EXPECT_EQ(expand_node_list("gpu-a[3],10.0.0.[7-8]"), (Names{"gpu-a3", "10.0.0.7", "10.0.0.8"}));
}

TEST(NodeList, SaysWhatIsWrong) {
  EXPECT_EQ(why_no_list("n[1-2"), "'n[1-2' is no list of hosts: a '[' without its ']'");
  EXPECT_EQ(why_no_list("n1-2]"), "'n1-2]' is no list of hosts: a ']' without its '['");
  EXPECT_EQ(why_no_list("a,,b"), "'a,,b' is no list of hosts: a name is empty");
  EXPECT_EQ(why_no_list(""), "'' is no list of hosts: a name is empty");
  EXPECT_EQ(why_no_list("n[2-1]"), "'n[2-1]' is no list of hosts: a range ends before it begins");
  for (const char* text :
       {"n[]", "n[a]", "n[1-]", "n[-1]", "n[1,]", "n[1--2]", "n[1[2]]", "n[99999999999999999999]"})
    EXPECT_EQ(why_no_list(text),
              std::string("'") + text +
                  "' is no list of hosts: in brackets stand numbers and ranges of them, like "
                  "[08,10-12]");
}

TEST(NodeList, IsNotLargerThanAnyCluster) {
  EXPECT_EQ(expand_node_list("n[1-131072]").size(), 1u << 17);
  for (const char* text : {"n[0-131072]", "n[1-256]m[1-513]", "n[1-131072],m", "n[0-999999999999999999]"})
    EXPECT_EQ(why_no_list(text),
              std::string("'") + text + "' is no list of hosts: it stands for too many hosts");
}

/// Packs names "x<number>" as Slurm does.
std::string packed(const std::vector<int>& numbers, int width) {
  std::string text = "x[";
  for (std::size_t at = 0; at < numbers.size();) {
    std::size_t end = at;
    while (end + 1 < numbers.size() && numbers[end + 1] == numbers[end] + 1) ++end;
    const auto digits = [&](int number) {
      std::string plain = std::to_string(number);
      return std::string(std::max<std::size_t>(width, plain.size()) - plain.size(), '0') + plain;
    };
    text += (at == 0 ? "" : ",") + digits(numbers[at]) + (end > at ? "-" + digits(numbers[end]) : "");
    at = end + 1;
  }
  return text + "]";
}

TEST(NodeList, GivesBackWhatWasPacked) {
  std::mt19937 random(7);
  for (int round = 0; round < 2000; ++round) {
    std::vector<int> numbers(1 + random() % 12);
    for (auto& number : numbers) number = static_cast<int>(random() % 40);
    const int width = static_cast<int>(random() % 4);
    Names names;
    for (const int number : numbers) {
      std::string plain = std::to_string(number);
      plain.insert(0, std::max<std::size_t>(width, plain.size()) - plain.size(), '0');
      names.push_back("x" + plain);
    }
    const auto text = packed(numbers, width);
    EXPECT_EQ(expand_node_list(text), names) << text;
    EXPECT_EQ(expand_node_list(text + ",y").size(), names.size() + 1);
  }
}

TEST(NodeList, TakesAnyTextOrRefusesIt) {
  std::mt19937 random(11);
  const std::string letters = "n19[]-,()x 0";
  for (int round = 0; round < 20'000; ++round) {
    std::string text(random() % 16, ' ');
    for (auto& letter : text) letter = letters[random() % letters.size()];
    try {
      const auto names = expand_node_list(text);
      EXPECT_FALSE(names.empty()) << text;
      for (const auto& name : names) EXPECT_EQ(name.find_first_of("[],"), std::string::npos) << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::invalid_argument);
    }
    try {
      for (const int count : expand_task_counts(text)) EXPECT_GT(count, 0) << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::invalid_argument);
    }
  }
}

TEST(TaskCounts, AreExpanded) {
  EXPECT_EQ(expand_task_counts("4"), std::vector<int>{4});
  EXPECT_EQ(expand_task_counts("2(x3),1"), (std::vector<int>{2, 2, 2, 1}));
  EXPECT_EQ(expand_task_counts("3,1"), (std::vector<int>{3, 1}));
}

TEST(TaskCounts, SayWhatIsWrong) {
  for (const char* text :
       {"", "0", "2(x0)", "2(x", "2(x3", "2(3)", "2,", "two", "2(x3)1", "2000000", "2(x2000000)"})
    EXPECT_THROW(static_cast<void>(expand_task_counts(text)), Error) << text;
}

}  // namespace
}  // namespace hora
