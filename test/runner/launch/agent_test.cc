// SPDX-License-Identifier: Apache-2.0
// An agent in a process of its own, and who speaks to it; remote_ranks_test has what goes well.
#include "runner/launch/agent.h"

#include "runner/launch/agent_channel.h"
#include "runner/launch/plan.h"
#include "runner/launch/process.h"
#include "test/runner/own_process.h"

#include <hora/hora.h>
#include <hora/status.h>

#include <csignal>
#include <optional>
#include <stdexcept>
#include <thread>

namespace hora::hrun {
namespace {

using namespace std::chrono_literals;

/// An agent whose rank has started a process that does not mind TERM; that one's number is known.
class Agent : public testing::Test {
 protected:
  template <typename Take>
  auto await(Take take) {
    for (;;) {
      channel_->flush();
      if (auto got = take()) return *got;
      if (channel_->closed()) throw std::runtime_error("the agent is gone");  // and said nothing more before
      await_events(back_.read.fd(), POLLIN, TimePoint::max());
      channel_->read(Clock::now());
    }
  }

  void SetUp() override {
    pid_ = ::fork();
    if (pid_ == 0) {
      there_.write = Descriptor();
      back_.read = Descriptor();
      int code = 99;
      try {
        code = run_agent(there_.read.fd(), back_.write.fd());
      } catch (const Error&) {
        code = 98;
      }
      ::_exit(code);
    }
    there_.read = Descriptor();
    back_.write = Descriptor();
    channel_.emplace(back_.read.fd(), there_.write.fd(), Clock::now());
    while (line_.empty()) line_ = await([&] { return channel_->next_line(); });
  }

  void TearDown() override {
    if (pid_ > 0) end();
  }

  /// Passes over others.
  AgentMessage await(Word word) {
    for (;;) {
      const AgentMessage message = await([&] { return channel_->next(); });
      if (message.word == word) return message;
    }
  }

  void start(const std::string& script) {
    HostPlan plan;
    plan.command = {"/bin/sh", "-c", script};
    plan.environment = {"PATH=/usr/bin:/bin"};
    plan.placements = place({{"here", 1}}, 1, false).front().placements;
    channel_->send(Word::plan, encode(plan));
    await(Word::ready);
    channel_->send(Word::start, encode(RendezvousPoint{}));
  }

  int end() {
    int status = 0;
    ::waitpid(pid_, &status, 0);
    pid_ = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

  void hang_up() {
    channel_.reset();
    there_.write = Descriptor();
    back_.read = Descriptor();
  }

  /// The process that the rank started, by its output.
  int child() {
    const AgentMessage message = await(Word::output);
    return std::stoi(std::string(decode_piece(message.body, 1).bytes));
  }

  static constexpr const char* kStubborn = "trap '' TERM; sleep 1000 & echo $!; wait; wait";

  Pipe there_ = make_pipe();
  Pipe back_ = make_pipe();
  int pid_ = 0;
  std::optional<AgentChannel> channel_;
  std::string line_;
};

/// Whether the process ends, which is not ours to wait for.
bool ends(int pid) {
  for (int i = 0; i < 1000; ++i) {
    if (::kill(pid, 0) != 0) return true;
    std::this_thread::sleep_for(10ms);
  }
  return false;
}

TEST_F(Agent, SaysItsVersion) {
  EXPECT_EQ(line_.substr(0, line_.rfind(' ')), std::string(kGreeting) + " " + version());
  hang_up();
  EXPECT_EQ(end(), 1);
}

TEST_F(Agent, EndsItsRanksAndWhatTheyStartedWhenItsConnectionEnds) {
  start(kStubborn);
  const int process = child();
  hang_up();
  EXPECT_EQ(end(), 1);
  EXPECT_TRUE(ends(process));
}

TEST_F(Agent, EndsThemWhenNothingIsHeard) {
  start(kStubborn);
  const int process = child();
  const TimePoint before = Clock::now();
  EXPECT_EQ(end(), 1);
  EXPECT_GE(Clock::now() - before, kSilence - 1s);
  EXPECT_LT(Clock::now() - before, 10s);
  EXPECT_TRUE(ends(process));
}

TEST_F(Agent, EndsThemWhenItIsKilled) {
  start(kStubborn);
  const int process = child();
  ::kill(pid_, SIGKILL);
  EXPECT_EQ(end(), 137);
  EXPECT_TRUE(ends(process));
}

TEST_F(Agent, SaysWhyWhenItIsToldToEnd) {
  start(kStubborn);
  const int process = child();
  ::kill(pid_, SIGTERM);
  EXPECT_EQ(text_of(await(Word::refused).body), "the agent of this host was told to end (Terminated)");
  EXPECT_EQ(end(), 1);
  EXPECT_TRUE(ends(process));
}

TEST_F(Agent, EndsThemWhenItIsToldNonsense) {
  start(kStubborn);
  const int process = child();
  channel_->send(Word::taken, encode(Taken{7, 1}));
  channel_->flush();
  EXPECT_EQ(end(), 98);
  EXPECT_TRUE(ends(process));
}

TEST_F(Agent, SendsNoMoreThanAWindowThatNobodyTook) {
  start("head -c 1000000 /dev/zero; exit 0");
  std::size_t got = 0;
  while (got < kWindow) got += decode_piece(await(Word::output).body, 1).bytes.size();
  EXPECT_EQ(got, kWindow);
  channel_->send(Word::ping, encode_number(1));
  EXPECT_EQ(decode_pong(await([&] { return channel_->next(); }).body).echo, 1u)
      << "nothing else is on its way";
  channel_->send(Word::taken, encode(Taken{0, 1000}));
  EXPECT_EQ(decode_piece(await(Word::output).body, 1).bytes.size(), 1000u);
}

TEST_F(Agent, LeavesQuietlyWhenAllIsOver) {
  start("exit 3");
  EXPECT_EQ(decode_ended(await(Word::ended).body, 1).exit_code, 3);
  await(Word::over);
  hang_up();
  EXPECT_EQ(end(), 0);
}

}  // namespace
}  // namespace hora::hrun
