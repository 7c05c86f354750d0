// SPDX-License-Identifier: Apache-2.0
#include "runner/streams/output.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <random>

namespace hora::hrun {
namespace {

using testing::ElementsAre;

std::vector<Line> cut(const std::vector<std::string>& pieces) {
  LineSplitter splitter;
  std::vector<Line> all;
  const auto take = [&](const Line& line) { all.push_back(line); };
  for (const auto& piece : pieces) splitter.feed(piece, take);
  splitter.finish(take);
  return all;
}

/// Each line with its end, which is written as C++ has it.
std::vector<std::string> lines(const std::vector<std::string>& pieces) {
  std::vector<std::string> all;
  for (const auto& line : cut(pieces)) {
    all.push_back(line.text);
    for (const char c : line.end) all.back() += c == '\r' ? "\\r" : "\\n";
  }
  return all;
}

/// Bytes of which many are ends, in pieces of any length.
std::vector<std::string> random_pieces(std::mt19937& random) {
  std::vector<std::string> pieces(random() % 20);
  for (auto& piece : pieces) {
    piece.resize(random() % 30);
    for (char& c : piece) c = "ab\r\n\n\r\0\xFF"[random() % 8];
  }
  return pieces;
}

std::string joined(const std::vector<std::string>& pieces) {
  return std::accumulate(pieces.begin(), pieces.end(), std::string());
}

TEST(LineSplitter, PutsLinesTogetherHoweverTheyArrive) {
  EXPECT_THAT(lines({"on", "e\ntw", "o\n\nthr", "ee"}), ElementsAre("one\\n", "two\\n", "\\n", "three"));
}

TEST(LineSplitter, TellsRedrawnLinesFromEnds) {
  EXPECT_THAT(lines({"10%\r20%\r", "30%\n"}), ElementsAre("10%\\r", "20%\\r", "30%\\n"));
  EXPECT_THAT(lines({"dos\r", "\nline\r\n"}), ElementsAre("dos\\r\\n", "line\\r\\n"));
  EXPECT_THAT(lines({"done\n", "100%\r"}), ElementsAre("done\\n", "100%\\r"));
}

TEST(LineSplitter, CutsLinesWithoutEnd) {
  EXPECT_THAT(lines({std::string(64 * 1024 + 3, 'x')}), ElementsAre(std::string(64 * 1024, 'x'), "xxx"));
}

TEST(Painter, KeepsEveryByteWithoutPrefixesHoweverTheyArrive) {
  std::mt19937 random(1);
  for (int i = 0; i < 2000; ++i) {
    const auto pieces = random_pieces(random);
    Painter painter(2, false, i % 2 == 0, true);
    std::string painted;
    for (const auto& line : cut(pieces)) painted += painter.paint(0, line);
    EXPECT_EQ(painted + painter.finish(0), joined(pieces));
  }
}

TEST(Painter, LosesNothingBehindPrefixesInAFile) {
  std::mt19937 random(2);
  for (int i = 0; i < 2000; ++i) {
    const auto pieces = random_pieces(random);
    Painter painter(2, true, false, false);
    std::string painted;
    for (const auto& line : cut(pieces)) {
      painted += painter.paint(0, line);
      if (random() % 4 == 0) painted += painter.paint(2, {"other", "\n"});
    }
    painted += painter.finish(0);
    // The text without ends of lines, which may be others.
    const auto text = [](std::string bytes) {
      for (const std::string extra : {"[1] other\n", "[0] "}) {
        for (auto at = bytes.find(extra); at != std::string::npos; at = bytes.find(extra))
          bytes.erase(at, extra.size());
      }
      std::erase_if(bytes, [](char c) { return c == '\r' || c == '\n'; });
      return bytes;
    };
    EXPECT_EQ(text(painted), text(joined(pieces)));
  }
}

TEST(Painter, PutsTheRankBeforeALine) {
  Painter painter(12, true, false, false);
  EXPECT_EQ(painter.paint(6, {"text", "\n"}), "[ 3] text\n");
  EXPECT_EQ(painter.paint(23, {"text", "\r\n"}), "[11] text\r\n");
  EXPECT_EQ(painter.paint(23, {"the last", ""}), "[11] the last\n");
}

TEST(Painter, ColoursOnlyWhereAsked) {
  Painter painter(2, true, true, true);
  EXPECT_EQ(painter.paint(0, {"text", "\n"}), "\033[36m[0]\033[0m text\n");
}

TEST(Painter, RedrawsBarsOnATerminal) {
  Painter terminal(2, true, true, false);
  EXPECT_EQ(terminal.paint(0, {"10%", "\r"}), "[0] 10%");
  EXPECT_EQ(terminal.paint(0, {"20%", "\r"}), "\r\033[K[0] 20%");
  EXPECT_EQ(terminal.paint(2, {"text", "\n"}), "\r\033[K[1] text\n");
  EXPECT_EQ(terminal.paint(0, {"30%", "\r"}), "[0] 30%");
  EXPECT_EQ(terminal.insert("words\n"), "\r\033[Kwords\n");
  EXPECT_EQ(terminal.finish(0), "[0] 30%\n") << "the last state stays";
  EXPECT_EQ(terminal.finish(2), "");
}

TEST(Painter, KeepsOnATerminalAStateThatTheNextPieceDoesNotCover) {
  Painter terminal(2, true, true, false);
  EXPECT_EQ(terminal.paint(0, {"half done", "\r"}), "[0] half done");
  EXPECT_EQ(terminal.paint(0, {"b", "\n"}), "\r\033[K[0] half done\n[0] b\n");
  EXPECT_EQ(terminal.paint(0, {"\u2588\u2588 ", "\r"}), "[0] \u2588\u2588 ");
  EXPECT_EQ(terminal.paint(0, {"abc", "\r"}), "\r\033[K[0] abc") << "a character is no three columns";
  EXPECT_EQ(terminal.paint(0, {"\033[K", "\r"}), "\r\033[K[0] \033[K") << "the program has cleared it";
}

TEST(Painter, ShowsOtherLinesBeforeTheOneInWhichTheUserTypes) {
  Painter terminal(2, true, true, false);
  EXPECT_EQ(terminal.converse(0, "Name: "), "Name: ");
  EXPECT_EQ(terminal.converse(0, "bo"), "bo");
  EXPECT_EQ(terminal.paint(2, {"late", "\n"}), "\r\033[K[1] late\nName: bo");
  EXPECT_EQ(terminal.paint(2, {"50 %", "\r"}), "") << "a bar has no line of its own there";
  EXPECT_EQ(terminal.insert("hrun: words\n"), "\r\033[Khrun: words\nName: bo");
  EXPECT_EQ(terminal.converse(0, "\rName: b"), "\rName: b");
  EXPECT_EQ(terminal.finish(2), "\r\033[K[1] 50 %\nName: b");
  EXPECT_EQ(terminal.converse(0, "ob\n"), "ob\n");
  EXPECT_EQ(terminal.paint(2, {"more", "\n"}), "[1] more\n");
  EXPECT_EQ(terminal.converse(0, "> "), "> ");
  EXPECT_EQ(terminal.finish(0), "\n");
  EXPECT_EQ(terminal.insert("words\n"), "words\n");
}

TEST(Painter, ShowsWhatIsTypedInAFileAsItIs) {
  Painter file(2, true, false, false);
  EXPECT_EQ(file.converse(0, "Name: "), "Name: ");
  EXPECT_EQ(file.paint(2, {"late", "\n"}), "\n[1] late\n");
  EXPECT_EQ(file.converse(0, "bob\n"), "bob\n");
  EXPECT_EQ(file.paint(2, {"more", "\n"}), "[1] more\n");
}

TEST(Painter, KeepsAllStatesOfBarsInAFileAndOtherRanksInLinesOfTheirOwn) {
  Painter file(2, true, false, false);
  EXPECT_EQ(file.paint(0, {"", "\r"}), "");
  EXPECT_EQ(file.paint(0, {"10%", "\r"}), "[0] 10%\r");
  EXPECT_EQ(file.paint(0, {"20%", "\r"}), "[0] 20%\r");
  EXPECT_EQ(file.paint(2, {"text", "\n"}), "\n[1] text\n");
  EXPECT_EQ(file.paint(0, {"30%", "\r"}), "[0] 30%\r");
  EXPECT_EQ(file.paint(0, {"", "\n"}), "\n");
  EXPECT_EQ(file.paint(0, {"40%", "\r"}), "[0] 40%\r");
  EXPECT_EQ(file.insert("words\n"), "\nwords\n");
  EXPECT_EQ(file.finish(0), "");
}

TEST(Tail, KeepsTheLastTwentyLines) {
  Tail tail;
  for (int i = 0; i < 25; ++i) tail.add(std::to_string(i));
  EXPECT_EQ(tail.lines().size(), 20u);
  EXPECT_EQ(tail.count(), 25u);
  EXPECT_EQ(tail.lines().front(), "5");
}

std::string last_line(const std::vector<std::string>& lines, std::size_t most = 100) {
  Tail tail;
  for (const auto& line : lines) tail.add(line);
  return tail.last_line(most);
}

TEST(Tail, HasTheLastLineThatSaysSomethingFitToBeQuoted) {
  EXPECT_EQ(last_line({}), "");
  EXPECT_EQ(last_line({"", " \t"}), "");
  EXPECT_EQ(last_line({"first", "  ValueError:\tbad batch ", ""}), "ValueError: bad batch");
  EXPECT_EQ(last_line({"\033[1;31mred\033[0m\a"}), "red");
  EXPECT_EQ(last_line({"cut \033[3"}), "cut");
  EXPECT_EQ(last_line({"abcdef"}, 4), "abcd");
  EXPECT_EQ(last_line({"disk is full", "hora 07:10:18.846 rank 0 error: an exception ended it"}),
            "disk is full");
  EXPECT_EQ(last_line({"hora is not here"}), "hora is not here");
  EXPECT_EQ(last_line({"ab\xC3\xA4"}, 3), "ab") << "no half of a character";
}

}  // namespace
}  // namespace hora::hrun
