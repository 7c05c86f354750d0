// SPDX-License-Identifier: Apache-2.0
#include "runner/output.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hora {
namespace {

using testing::ElementsAre;

std::vector<std::string> lines(const std::vector<std::string>& pieces) {
  LineSplitter splitter;
  std::vector<std::string> all;
  const auto take = [&](const Line& line) {
    all.push_back(line.overwritten ? line.text + "\\r" : line.text);
  };
  for (const auto& piece : pieces) splitter.feed(piece, take);
  splitter.finish(take);
  return all;
}

TEST(LineSplitter, PutsLinesTogetherHoweverTheyArrive) {
  EXPECT_THAT(lines({"on", "e\ntw", "o\n\nthr", "ee"}), ElementsAre("one", "two", "", "three"));
}

TEST(LineSplitter, TellsRedrawnLinesFromEnds) {
  EXPECT_THAT(lines({"10%\r20%\r", "30%\n"}), ElementsAre("10%\\r", "20%\\r", "30%"));
  EXPECT_THAT(lines({"dos\r", "\nline\r\n"}), ElementsAre("dos", "line"));
}

TEST(LineSplitter, KeepsTheLastStateOfALineThatWasRedrawn) {
  EXPECT_THAT(lines({"10%\r", "100%\r"}), ElementsAre("10%\\r", "100%"));
  EXPECT_THAT(lines({"done\n", "\r"}), ElementsAre("done"));
}

TEST(LineSplitter, CutsLinesWithoutEnd) {
  EXPECT_THAT(lines({std::string(64 * 1024 + 3, 'x')}), ElementsAre(std::string(64 * 1024, 'x'), "xxx"));
}

TEST(LineSplitter, KeepsEveryByte) {
  const std::string bytes("a\0b\x80\xFF", 5);
  EXPECT_THAT(lines({bytes + "\n"}), ElementsAre(bytes));
}

TEST(Painter, PutsTheRankBeforeALine) {
  Painter painter(12, true, false, false);
  EXPECT_EQ(painter.paint(3, {"text", false}), "[ 3] text\n");
  EXPECT_EQ(painter.paint(11, {"text", false}), "[11] text\n");
  Painter bare(2, false, false, false);
  EXPECT_EQ(bare.paint(0, {"text", false}), "text\n");
}

TEST(Painter, ColoursOnlyWhereAsked) {
  Painter painter(2, true, true, true);
  EXPECT_EQ(painter.paint(0, {"text", false}), "\033[36m[0]\033[0m text\n");
}

TEST(Painter, RedrawsBarsOnATerminalAndLeavesThemOutElsewhere) {
  Painter terminal(2, true, true, false);
  EXPECT_EQ(terminal.paint(0, {"10%", true}), "[0] 10%");
  EXPECT_EQ(terminal.paint(0, {"20%", true}), "\r\033[K[0] 20%");
  EXPECT_EQ(terminal.paint(1, {"text", false}), "\r\033[K[1] text\n");
  Painter file(2, true, false, false);
  EXPECT_EQ(file.paint(0, {"10%", true}), "");
}

TEST(Tail, KeepsTheLastTwentyLines) {
  Tail tail;
  for (int i = 0; i < 25; ++i) tail.add(std::to_string(i));
  EXPECT_EQ(tail.lines().size(), 20u);
  EXPECT_EQ(tail.lines().front(), "5");
}

std::string last_words(const std::vector<std::string>& lines, std::size_t most = 100) {
  Tail tail;
  for (const auto& line : lines) tail.add(line);
  return tail.last_words(most);
}

TEST(Tail, HasTheLastLineThatSaysSomethingFitToBeQuoted) {
  EXPECT_EQ(last_words({}), "");
  EXPECT_EQ(last_words({"", " \t"}), "");
  EXPECT_EQ(last_words({"first", "  ValueError:\tbad batch ", ""}), "ValueError: bad batch");
  EXPECT_EQ(last_words({"\033[1;31mred\033[0m\a"}), "red");
  EXPECT_EQ(last_words({"cut \033[3"}), "cut");
  EXPECT_EQ(last_words({"abcdef"}, 4), "abcd");
  EXPECT_EQ(last_words({"disk is full", "hora 07:10:18.846 rank 0 error: an exception ended it"}),
            "disk is full");
  EXPECT_EQ(last_words({"hora is not here"}), "hora is not here");
  EXPECT_EQ(last_words({"ab\xC3\xA4"}, 3), "ab") << "no half of a character";
}

}  // namespace
}  // namespace hora
