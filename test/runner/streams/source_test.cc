// SPDX-License-Identifier: Apache-2.0
#include "runner/streams/source.h"

#include "runner/launch/process.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>

namespace hora::hrun {
namespace {

std::string read(OutputSource& source) {
  std::array<char, 16> buffer{};
  return {buffer.data(), source.read(buffer)};
}

void write(const Pipe& pipe, std::string_view text) {
  EXPECT_EQ(::write(pipe.write.fd(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
}

TEST(PipeSource, ReadsUntilTheEnd) {
  Pipe pipe = make_pipe();
  PipeSource source(std::move(pipe.read));
  EXPECT_EQ(read(source), "");
  EXPECT_FALSE(source.ended());
  write(pipe, "words");
  EXPECT_EQ(read(source), "words");
  pipe.write = Descriptor();
  EXPECT_EQ(read(source), "");
  EXPECT_TRUE(source.ended());
}

TEST(PipeSource, ReadsNoMoreThanWhatItHeldWhenNoMoreWasExpected) {
  Pipe pipe = make_pipe();
  PipeSource source(std::move(pipe.read));
  write(pipe, "last");
  source.expect_no_more();
  write(pipe, " words of another process");
  EXPECT_EQ(read(source), "last");
  EXPECT_TRUE(source.ended());

  Pipe silent = make_pipe();
  PipeSource empty(std::move(silent.read));
  empty.expect_no_more();
  EXPECT_TRUE(empty.ended());
}

TEST(Inbox, GivesCreditForWhatWasRead) {
  Inbox box;
  EXPECT_FALSE(box.ready());
  box.put("0123456789abcdefghij");
  EXPECT_TRUE(box.ready());
  EXPECT_EQ(read(box), "0123456789abcdef");
  EXPECT_EQ(box.take_credit(), 16u);
  EXPECT_EQ(box.take_credit(), 0u);
  box.end();
  EXPECT_FALSE(box.ended()) << "there is something left";
  EXPECT_EQ(read(box), "ghij");
  EXPECT_TRUE(box.ended());
}

}  // namespace
}  // namespace hora::hrun
