// SPDX-License-Identifier: Apache-2.0
#include "core/launcher/launcher_line.h"

#include "core/base/socket_io.h"
#include "core/launcher/end_report.h"

#include <hora/end_report.h>

#include <gtest/gtest.h>

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>

namespace hora {
namespace {

class LauncherLine : public testing::Test {
 protected:
  LauncherLine() {
    std::array<int, 2> ends{};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()), 0);
    launcher_ = Descriptor(ends[0]);
    rank_ = Descriptor(ends[1]);
    remember_launcher_line(rank_.fd());
  }
  ~LauncherLine() override { remember_launcher_line(-1); }
  LauncherLine(const LauncherLine&) = delete;
  LauncherLine& operator=(const LauncherLine&) = delete;

  /// The report that has arrived, if one has.
  [[nodiscard]] std::optional<EndReport> heard() const {
    std::array<std::byte, 4096> buffer;
    const auto got = ::recv(launcher_.fd(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (got <= 0) return std::nullopt;
    const Reply reply = decode_reply(std::span(buffer).first(static_cast<std::size_t>(got)));
    EXPECT_EQ(reply.kind, ReplyKind::ends);
    return decode_end_report(reply.content);
  }

  Descriptor launcher_;
  Descriptor rank_;
};

TEST_F(LauncherLine, CarriesTheEndAndItsReasonOnlyWhereNothingBetterWasTold) {
  report_reason("it called std::terminate");
  EXPECT_EQ(heard(), (EndReport{"it called std::terminate", "", ""}));
  EXPECT_TRUE(report_end("ValueError: x", "train.py:3", "Traceback\n"));
  report_reason("ValueError: x (train.py:3)");
  EXPECT_EQ(heard(), (EndReport{"ValueError: x", "train.py:3", "Traceback\n"}));
  EXPECT_EQ(heard(), std::nullopt);
}

TEST_F(LauncherLine, LeavesATraceToItsProcessWhereNobodyHearsIt) {
  EXPECT_FALSE(report_end("e", "", std::string(kMostTraceBytes + 1, 'x'))) << "too long";
  launcher_ = Descriptor();
  EXPECT_FALSE(report_end("e", "", "t"));
  remember_launcher_line(-1);
  EXPECT_FALSE(report_end("e", "", "t"));
}

TEST_F(LauncherLine, IsNotThatOfAForkedChild) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(report_end("e", "", "t") ? 1 : 0);
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(heard(), std::nullopt);
}

}  // namespace
}  // namespace hora
