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

/// Until it is over.
void run(Loop& loop) {
  Engine engine(loop, false);
  engine.start();
  engine.join();
}

TEST(Loop, EndsWhenAllHaveLeftAndGivesBackWhatNobodyAskedFor) {
  LocalGroup group(2);
  World worlds[] = {group.join(0), group.join(1)};
  const Config config;
  TensorTable tables[2];
  ProcessSets sets[] = {ProcessSets(2), ProcessSets(2)};
  Timeline timelines[] = {Timeline(2), Timeline(2)};
  Delays delays[2];
  OwnGpu gpus[] = {OwnGpu(0), OwnGpu(1)};
  Messages messages[] = {{*worlds[0].messenger, 0, 2}, {*worlds[1].messenger, 1, 2}};
  Loop loops[] = {{worlds[0], config, tables[0], sets[0], timelines[0], delays[0], gpus[0], messages[0]},
                  {worlds[1], config, tables[1], sets[1], timelines[1], delays[1], gpus[1], messages[1]}};
  Entry entry;
  entry.name = "late";
  loops[0].leave("");
  loops[1].leave("");
  std::thread other([&] { run(loops[1]); });
  run(loops[0]);
  other.join();
  EXPECT_THROW(tables[0].put(std::move(entry), {}, {}), Error);
}

TEST(Loop, WakesWhenATensorIsOverdueAlsoIfALetterWasTheFirstToAskForIt) {
  LocalGroup group(2);
  World worlds[] = {group.join(0), group.join(1)};
  const Config config;
  TensorTable tables[2];
  ProcessSets sets[] = {ProcessSets(2), ProcessSets(2)};
  Timeline timelines[] = {Timeline(2), Timeline(2)};
  Delays delays[2];
  OwnGpu gpus[] = {OwnGpu(0), OwnGpu(1)};
  Messages messages[] = {{*worlds[0].messenger, 0, 2}, {*worlds[1].messenger, 1, 2}};
  Loop loops[] = {{worlds[0], config, tables[0], sets[0], timelines[0], delays[0], gpus[0], messages[0]},
                  {worlds[1], config, tables[1], sets[1], timelines[1], delays[1], gpus[1], messages[1]}};
  Entry entry;
  entry.name = "x";
  Request request;
  request.name = entry.name;
  tables[1].put(std::move(entry), {kWorld, request}, Clock::now());
  loops[1].turn(false);
  const Loop::Turn turn = loops[0].turn(false);
  EXPECT_FALSE(turn.more);
  EXPECT_LE(turn.next, Clock::now() + config.missing_warning);
}

TEST(Loop, FailsInOrderWhenThereIsNoTemporaryDirectory) {
  LocalGroup group(2);
  World world = group.join(0);
  const Config config;
  TensorTable table;
  ProcessSets sets(2);
  Timeline timeline(2);
  Delays delays;
  OwnGpu gpu(0);
  Messages messages(*world.messenger, 0, 2);
  Loop loop(world, config, table, sets, timeline, delays, gpu, messages);
  Entry entry;
  entry.name = "x";
  Request request;
  request.name = entry.name;
  const Handle handle = table.put(std::move(entry), {kWorld, request}, {});
  group.lose(1, "its process ended");
  const char* former = std::getenv("TMPDIR");
  const std::string kept = former == nullptr ? "" : former;
  ::setenv("TMPDIR", "/there/is/no/such/directory", 1);
  testing::internal::CaptureStderr();
  run(loop);
  const std::string text = testing::internal::GetCapturedStderr();
  if (former == nullptr) {
    ::unsetenv("TMPDIR");
  } else {
    ::setenv("TMPDIR", kept.c_str(), 1);
  }
  EXPECT_TRUE(handle.poll());
  EXPECT_NE(text.find("rank 1 is gone: its process ended"), std::string::npos) << text;
}

/// A rank of two, alone with its loop, and what it has written down.
class LoopsDump : public testing::Test {
 protected:
  LoopsDump() {
    config_.dump_directory = folder_;
    Entry entry;
    entry.name = "x";
    entry.shape = {2, 3};
    Request request;
    request.name = entry.name;
    table_.put(std::move(entry), {kWorld, request}, Clock::now());
  }
  ~LoopsDump() override { std::filesystem::remove_all(folder_); }

  [[nodiscard]] nlohmann::json written() const {
    return nlohmann::json::parse(std::ifstream(folder_ / "rank0.json"));
  }

  const std::filesystem::path folder_ =
      std::filesystem::path(testing::TempDir()) / ("hora-loop-" + std::to_string(::getpid()));
  LocalGroup group_{2};
  World world_ = group_.join(0);
  Config config_;
  TensorTable table_;
  ProcessSets sets_{2};
  Timeline timeline_{2};
  Delays delays_;
  OwnGpu gpu_{0};
  Messages messages_{*world_.messenger, 0, 2};
  Loop loop_{world_, config_, table_, sets_, timeline_, delays_, gpu_, messages_};
};

TEST_F(LoopsDump, IsWrittenWhenSomebodyAsksForIt) {
  loop_.dump("a signal asks for it");
  const auto dump = written();
  EXPECT_EQ(dump["status"], "ok");
  EXPECT_EQ(dump["message"], "a signal asks for it");
  EXPECT_EQ(dump["pending"][0]["name"], "x");
  EXPECT_EQ(dump["pending"][0]["shape"], (std::vector<int>{2, 3}));
}

TEST_F(LoopsDump, IsWrittenAlsoByARankThatIsLeaving) {
  loop_.leave("");
  group_.lose(1, "its process ended");  // which it hears when it has asked to leave
  run(loop_);
  const auto dump = written();
  EXPECT_EQ(dump["status"], "aborted");
  EXPECT_EQ(dump["message"], "rank 1 is gone: its process ended");
  EXPECT_EQ(dump["pending"][0]["name"], "x");
}

TEST_F(LoopsDump, IsWrittenForWhoeverWantsItsPath) {
  EXPECT_EQ(loop_.write_dump("hrun dump asks for it"), folder_ / "rank0.json");
  EXPECT_EQ(written()["message"], "hrun dump asks for it");
}

TEST_F(LoopsDump, HealthTellsWhatIsUnderWay) {
  const Health health = loop_.health();
  EXPECT_EQ(health.finished, 0u);
  EXPECT_EQ(health.last, "");
  EXPECT_EQ(health.in_flight, 1u);
  ASSERT_EQ(health.oldest.size(), 1u);
  EXPECT_EQ(health.oldest.front().name, "x");
  EXPECT_EQ(health.oldest.front().what, "allreduce float32[2,3]");
}

TEST(Loop, AnswersHowTheJobIsOnceItComesToIt) {
  std::array<int, 2> line{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, line.data()), 0);
  const Descriptor ours(line[0]);
  const Descriptor theirs(line[1]);
  LocalGroup group(2);
  World world = group.join(0);
  Config config;
  config.question_fd = theirs.fd();
  config.dump_directory =
      std::filesystem::path(testing::TempDir()) / ("hora-asked-" + std::to_string(::getpid()));
  TensorTable table;
  ProcessSets sets(2);
  Timeline timeline(2);
  Delays delays;
  OwnGpu gpu(0);
  Messages messages(*world.messenger, 0, 2);
  Loop loop(world, config, table, sets, timeline, delays, gpu, messages);
  Entry entry;
  entry.name = "x";
  Request request;
  request.name = entry.name;
  table.put(std::move(entry), {kWorld, request}, Clock::now());
  std::thread engine([&] { run(loop); });
  // A question that arrives before the loop has taken the submitted operation is answered before that, too.
  JobHealth health;
  for (std::uint64_t question = 1; health.waiting == 0; ++question) {
    loop.inquire(question);
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
  group.lose(1, "its process ended");
  engine.join();
  testing::internal::GetCapturedStderr();
  std::filesystem::remove_all(config.dump_directory);
}

}  // namespace
}  // namespace hora
