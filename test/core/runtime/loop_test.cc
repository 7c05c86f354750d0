// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/engine.h"

#include "core/backend/local/local_group.h"
#include "core/base/socket_io.h"
#include "core/launcher/question.h"

#include <gtest/gtest.h>

#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

namespace hora {
namespace {

/// One rank of two, and its loop.
struct RankWithLoop {
  RankWithLoop(local::LocalGroup& group, int number, Config chosen = {})
      : config(std::move(chosen)),
        world(group.join(number)),
        gpu(number),
        messages(*world.messenger, number, sets) {}

  /// Submits a tensor "x".
  Handle submit() {
    Entry entry;
    entry.name = "x";
    Request request;
    request.name = entry.name;
    return table.put(std::move(entry), {kWorld, request}, Clock::now());
  }
  /// Until it is over.
  void run() {
    Engine engine(loop, false);
    engine.start();
    engine.join();
  }

  Config config;
  World world;
  TensorTable table;
  ProcessSets sets{2};
  Timeline timeline{2};
  Delays delays;
  OwnGpu gpu;
  Messages messages;
  Loop loop{world, config, table, sets, timeline, delays, gpu, messages};
};

TEST(Loop, EndsWhenAllHaveLeftAndGivesBackWhatNobodyAskedFor) {
  local::LocalGroup group(2);
  RankWithLoop first(group, 0);
  RankWithLoop second(group, 1);
  first.loop.leave();
  second.loop.leave();
  std::thread other([&] { second.run(); });
  first.run();
  other.join();
  EXPECT_THROW((void)first.submit(), Error);
}

TEST(Loop, WakesWhenATensorIsOverdueAlsoIfALetterWasTheFirstToAskForIt) {
  local::LocalGroup group(2);
  RankWithLoop first(group, 0);
  RankWithLoop second(group, 1);
  second.submit();
  second.loop.turn(false);
  const Loop::Turn turn = first.loop.turn(false);
  EXPECT_FALSE(turn.more);
  EXPECT_LE(turn.next, Clock::now() + first.config.missing_warning);
}

TEST(Loop, FailsInOrderWhenThereIsNoTemporaryDirectory) {
  local::LocalGroup group(2);
  RankWithLoop rank(group, 0);
  const Handle handle = rank.submit();
  group.lose(1, "its process ended");
  const char* former = std::getenv("TMPDIR");
  const std::string kept = former == nullptr ? "" : former;
  ::setenv("TMPDIR", "/there/is/no/such/directory", 1);
  testing::internal::CaptureStderr();
  rank.run();
  const std::string text = testing::internal::GetCapturedStderr();
  if (former == nullptr) {
    ::unsetenv("TMPDIR");
  } else {
    ::setenv("TMPDIR", kept.c_str(), 1);
  }
  EXPECT_TRUE(handle.poll());
  EXPECT_NE(text.find("rank 1 is gone: its process ended"), std::string::npos) << text;
}

/// A loop that leaves dumps in a folder of its own.
class LoopThatDumps : public testing::Test {
 protected:
  LoopThatDumps() { config_.dump_directory = folder_; }
  ~LoopThatDumps() override { std::filesystem::remove_all(folder_); }

  const std::filesystem::path folder_ =
      std::filesystem::path(testing::TempDir()) / ("hora-loop-" + std::to_string(::getpid()));
  local::LocalGroup group_{2};
  Config config_;
};

TEST_F(LoopThatDumps, DoesSoAlsoWhenItIsLeavingAndAnotherRankIsLost) {
  RankWithLoop rank(group_, 0, config_);
  rank.submit();
  rank.loop.leave();
  group_.lose(1, "its process ended");  // which it hears when it has asked to leave
  testing::internal::CaptureStderr();
  rank.run();
  testing::internal::GetCapturedStderr();
  const auto dump = nlohmann::json::parse(std::ifstream(folder_ / "rank0.json"));
  EXPECT_EQ(dump["status"], "aborted");
  EXPECT_EQ(dump["message"], "rank 1 is gone: its process ended");
  EXPECT_EQ(dump["pending"][0]["name"], "x");
}

TEST_F(LoopThatDumps, AnswersHowTheJobIsOnceItComesToIt) {
  std::array<int, 2> line{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, line.data()), 0);
  const Descriptor ours(line[0]);
  const Descriptor theirs(line[1]);
  config_.question_fd = theirs.fd();
  RankWithLoop rank(group_, 0, config_);
  rank.submit();
  std::thread engine([&] { rank.run(); });
  // A question that arrives before the loop has taken the submitted operation is answered before that, too.
  JobHealth health;
  for (std::uint64_t question = 1; health.waiting == 0; ++question) {
    rank.loop.inquire(question);
    Bytes buffer(kMostReplyBytes);
    const auto got = ::recv(ours.fd(), buffer.data(), buffer.size(), 0);
    const Reply reply = decode_reply(std::span(buffer).first(static_cast<std::size_t>(got)));
    EXPECT_EQ(reply.number, question);
    ASSERT_EQ(reply.kind, ReplyKind::job);
    health = decode_job_health(reply.content);
  }
  EXPECT_EQ(health.steps, 0u);
  ASSERT_EQ(health.longest.size(), 1u);
  EXPECT_EQ(health.longest.front().operation.name, "x");
  EXPECT_EQ(health.longest.front().missing, std::vector<int>{1});
  testing::internal::CaptureStderr();
  group_.lose(1, "its process ended");
  engine.join();
  testing::internal::GetCapturedStderr();
}

}  // namespace
}  // namespace hora
