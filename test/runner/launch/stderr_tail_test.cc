// SPDX-License-Identifier: Apache-2.0
#include "runner/launch/stderr_tail.h"

#include "runner/launch/process.h"

#include <gtest/gtest.h>
#include <unistd.h>

namespace hora::hrun {
namespace {

class TailOfAPipe : public testing::Test {
 protected:
  void write(const std::string& text) {
    ASSERT_EQ(::write(pipe_.write.fd(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
    tail_.read();
  }
  Pipe pipe_ = make_pipe();
  StderrTail tail_{std::move(pipe_.read)};
};

TEST_F(TailOfAPipe, QuotesLinesWithoutWhatChangesATerminal) {
  EXPECT_EQ(tail_.quoted(), "");
  write("no route\r\n\n  \n\x1b[31mto b\x7f\nat al");
  write("l");
  EXPECT_EQ(tail_.quoted(), "no route;  [31mto b; at all");
  tail_.clear();
  write("later\n");
  EXPECT_EQ(tail_.quoted(), "later");
}

TEST_F(TailOfAPipe, KeepsTheLastBytes) {
  for (int i = 0; i < 10; ++i) write(std::string(1000, static_cast<char>('0' + i)));
  EXPECT_EQ(tail_.quoted().size(), StderrTail::kMost);
  EXPECT_EQ(tail_.quoted().substr(StderrTail::kMost - 1001), '8' + std::string(1000, '9'));
}

TEST_F(TailOfAPipe, WaitsForNothingAfterItsEnd) {
  std::vector<pollfd> events;
  tail_.watch(events);
  EXPECT_EQ(events.size(), 1U);
  pipe_.write = Descriptor();
  tail_.read();
  events.clear();
  tail_.watch(events);
  EXPECT_TRUE(events.empty());
}

}  // namespace
}  // namespace hora::hrun
