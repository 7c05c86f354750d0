// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/job_watch.h"

#include "core/backend/local/local_group.h"
#include "core/base/descriptor.h"
#include "core/launcher/question.h"

#include <gtest/gtest.h>

#include <sys/socket.h>
#include <unistd.h>

#include <array>

namespace hora {
namespace {

/// Rank 0 of two, whose launcher is this test; rank 1 does nothing.
class JobWatchTest : public testing::Test {
 protected:
  JobWatchTest() {
    Request request;
    request.name = "x";
    negotiator_.ask(kWorld, {request}, begin_);
    negotiator_.hear(begin_, false);
  }

  static std::array<int, 2> make_line() {
    std::array<int, 2> line{};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, line.data()), 0);
    return line;
  }
  [[nodiscard]] Reply said() const {
    Bytes buffer(kMostReplyBytes);
    const auto got = ::recv(launcher_.fd(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    return decode_reply(std::span(buffer).first(static_cast<std::size_t>(got)));
  }
  [[nodiscard]] bool has_said_nothing() const {
    std::byte one{};
    return ::recv(launcher_.fd(), &one, 1, MSG_DONTWAIT) < 0;
  }
  static Config config_of(int question_fd) {
    Config config;
    config.question_fd = question_fd;
    return config;
  }

  const std::array<int, 2> line_ = make_line();
  const Descriptor launcher_{line_[0]};
  const Descriptor rank_{line_[1]};
  const TimePoint begin_ = Clock::now();
  const Config config_ = config_of(line_[1]);
  local::LocalGroup group_{2};
  World world_ = group_.join(0);
  World other_ = group_.join(1);
  TensorTable table_;
  ProcessSets sets_{2};
  Messages messages_{*world_.messenger, 0, sets_};
  Recorder recorder_{10};
  RankState state_{world_, config_, table_, messages_, recorder_};
  Negotiator negotiator_{*world_.control};
  JobWatch watch_{world_, config_, negotiator_, state_};
};

TEST_F(JobWatchTest, AnswersOnceForEachQuestion) {
  watch_.answer(begin_);
  EXPECT_TRUE(has_said_nothing());
  watch_.inquire(7);
  watch_.answer(begin_ + std::chrono::seconds(3));
  const Reply reply = said();
  EXPECT_EQ(reply.number, 7u);
  ASSERT_EQ(reply.kind, ReplyKind::job);
  const JobHealth health = decode_job_health(reply.content);
  EXPECT_EQ(health.steps, 0u);
  EXPECT_EQ(health.waiting, 1u);
  ASSERT_EQ(health.longest.size(), 1u);
  EXPECT_EQ(health.longest.front().operation.name, "x");
  EXPECT_EQ(health.longest.front().missing, std::vector<int>{1});
  watch_.answer(begin_);
  EXPECT_TRUE(has_said_nothing());
}

TEST_F(JobWatchTest, AsksARankThatIsMissingBeforeItWarns) {
  EXPECT_EQ(watch_.look(begin_), begin_ + config_.missing_warning);
  testing::internal::CaptureStderr();
  const TimePoint late = begin_ + config_.missing_warning;
  const TimePoint answer_by = watch_.look(late);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  EXPECT_GT(answer_by, late);
  testing::internal::CaptureStderr();
  watch_.take({1, Report::account, encode(Account{})}, late);
  watch_.look(late);
  const std::string warning = testing::internal::GetCapturedStderr();
  EXPECT_NE(warning.find("'x'"), std::string::npos) << warning;
  EXPECT_NE(warning.find("rank 1"), std::string::npos) << warning;
}

TEST_F(JobWatchTest, WarnsLaterOfARankThatSaidItWouldBeLate) {
  const std::chrono::minutes busy{10};
  watch_.take({1, Report::delay, encode(Delay{"saving", busy})}, begin_);
  EXPECT_GE(watch_.look(begin_ + config_.missing_warning), begin_ + busy);
}

TEST_F(JobWatchTest, CountsStepsForTheLauncher) {
  TrainingStep step;
  step.behind.assign(2, {});
  for (int number = 1; number <= 3; ++number) watch_.end_step(step, begin_ + std::chrono::seconds(number));
  watch_.inquire(1);
  watch_.answer(begin_ + std::chrono::seconds(5));
  const JobHealth health = decode_job_health(said().content);
  EXPECT_EQ(health.steps, 3u);
  EXPECT_EQ(health.since_step, std::chrono::seconds(2));
  EXPECT_EQ(health.lateness.size(), 2u);
}

}  // namespace
}  // namespace hora
