// SPDX-License-Identifier: Apache-2.0
#include "core/base/line_writer.h"

#include "core/base/descriptor.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace hora {
namespace {

using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""s;

struct Pipe {
  Descriptor reads;
  Descriptor writes;

  Pipe() {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
    reads = Descriptor(ends[0]);
    writes = Descriptor(ends[1]);
  }

  std::string read(std::size_t bytes) const {
    std::string text(bytes, '\0');
    for (std::size_t done = 0; done < bytes;) {
      const auto now = ::read(reads.fd(), text.data() + done, bytes - done);
      if (now <= 0) return text.substr(0, done);
      done += static_cast<std::size_t>(now);
    }
    return text;
  }
};

TEST(LineWriter, WhatFitsIsWrittenAtOnce) {
  const Pipe pipe;
  LineWriter writer(pipe.writes.fd());
  writer.write("one\n");
  EXPECT_TRUE(writer.flush(0ms));
  EXPECT_EQ(pipe.read(4), "one\n");
}

TEST(LineWriter, NobodyWaitsForAReaderThatStandsStillAndAllComesInOrder) {
  const Pipe pipe;
  LineWriter writer(pipe.writes.fd());
  std::string expected;
  for (int line = 0; line < 3000; ++line) {  // more than a pipe holds, some of them longer than a write
    std::string text = fmt::format("{:>{}}\n", line, line % 500 == 0 ? 10000 : 100);
    expected += text;
    writer.write(std::move(text));
  }
  EXPECT_FALSE(writer.flush(0ms));
  EXPECT_EQ(pipe.read(expected.size()), expected);
  EXPECT_TRUE(writer.flush(60s));
}

TEST(LineWriter, SaysHowManyLinesItDropped) {
  const Pipe pipe;
  LineWriter writer(pipe.writes.fd());
  const std::string line = std::string(1023, 'x') + "\n";
  std::size_t all = 0;
  for (; all < 2 * LineWriter::kMostBytes; all += line.size()) writer.write(line);
  const std::string taken = pipe.read(LineWriter::kMostBytes);
  EXPECT_EQ(taken.find("dropped"), std::string::npos);
  ASSERT_EQ(::fcntl(pipe.reads.fd(), F_SETFL, O_NONBLOCK), 0);
  while (!writer.flush(0ms)) pipe.read(line.size());
  pipe.read(all);  // what the pipe still holds
  writer.write("last\n");
  const std::string rest = pipe.read(all);
  EXPECT_NE(rest.find("lines were dropped: nobody read stderr\nlast\n"), std::string::npos) << rest.size();
}

TEST(LineWriter, LinesOfSeveralThreadsStayWhole) {
  const Pipe pipe;
  LineWriter writer(pipe.writes.fd());
  constexpr int kEach = 500;
  std::vector<std::thread> threads;
  for (char name = 'a'; name < 'e'; ++name) {
    threads.emplace_back([&writer, name] {
      for (int line = 0; line < kEach; ++line) writer.write(std::string(99, name) + "\n");
    });
  }
  const std::string text = pipe.read(std::size_t{4} * kEach * 100);
  for (auto& thread : threads) thread.join();
  for (std::size_t at = 0; at < text.size(); at += 100) {
    ASSERT_EQ(text.substr(at, 100), std::string(99, text[at]) + "\n");
  }
  EXPECT_TRUE(writer.flush(60s));
}

TEST(LineWriter, AForkedChildHasNothingOfWhatWaits) {
  const Pipe pipe;
  LineWriter writer(pipe.writes.fd());
  writer.write(std::string(100'000, 'x') + "\n");
  writer.before_fork();
  const pid_t child = ::fork();
  writer.after_fork(child == 0);
  if (child == 0) ::_exit(writer.flush(0ms) ? 0 : 1);
  int status = -1;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  pipe.read(100'001);
  EXPECT_TRUE(writer.flush(60s));
}

}  // namespace
}  // namespace hora
