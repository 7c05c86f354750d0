// SPDX-License-Identifier: Apache-2.0
// With shell scripts instead of agents. remote_ranks_test has real ones.
#include "runner/launch/agent_connection.h"

#include <hora/hora.h>
#include <hora/status.h>

#include <gtest/gtest.h>
#include <sys/wait.h>

namespace hora::hrun {
namespace {

using namespace std::chrono_literals;

const std::string kGreet = std::string("echo hora-agent ") + version() + " /here/hrun; ";

RemoteHost road_through(const std::string& script) {
  return {"b", {"/bin/sh", "-c", script}, [](const std::string& words, int code) {
            return words + " with " + std::to_string(code);
          }};
}

/// Waits for something, as the owner of a connection does.
void wait(const AgentConnection& connection) {
  std::vector<pollfd> events;
  connection.watch(events);
  ::poll(events.data(), events.size(), milliseconds_until(connection.next()));
}
void read_until_greeted(AgentConnection& connection) {
  while (!connection.read(Clock::now())) wait(connection);
}
AgentMessage next_message(AgentConnection& connection) {
  while (true) {
    if (auto message = connection.next_message(Clock::now())) return *std::move(message);
    wait(connection);
    connection.read(Clock::now());
  }
}
/// Reads until the other end has closed its side.
AgentConnection::Loss loss_of(AgentConnection& connection) {
  while (true) {
    connection.read(Clock::now());
    if (auto loss = connection.loss(Clock::now())) return *loss;
    wait(connection);
  }
}

TEST(AgentConnection, SendsAPingAsSoonAsItIsGreeted) {
  AgentConnection connection(road_through("echo Welcome; " + kGreet + "exec cat"), Clock::now());
  EXPECT_EQ(connection.next(), TimePoint::max());
  read_until_greeted(connection);
  connection.queue(Word::kill);
  connection.send(Word::terminate);
  EXPECT_EQ(next_message(connection).word, Word::ping);
  EXPECT_EQ(next_message(connection).word, Word::kill);
  EXPECT_EQ(next_message(connection).word, Word::terminate);
  const TimePoint next = connection.next();
  EXPECT_LE(next, Clock::now() + kSilence / kPingsInSilence);
  connection.speak(next);
  EXPECT_EQ(next_message(connection).word, Word::ping);
}

TEST(AgentConnection, SaysNothingToAnAgentOfAnotherVersion) {
  AgentConnection connection(road_through("echo hora-agent 0.0.7 /old/hrun; exec cat"), Clock::now());
  EXPECT_EQ(loss_of(connection).why.find("its hrun (/old/hrun) is of version 0.0.7, and this one of "), 0U);
  EXPECT_FALSE(connection.greeted());
  EXPECT_FALSE(connection.next_message(Clock::now()));
}

TEST(AgentConnection, IsLostWhenNothingIsHeardForAWhile) {
  const TimePoint begin = Clock::now();
  AgentConnection connection(road_through(kGreet + "exec sleep 1000"), begin);
  read_until_greeted(connection);
  EXPECT_FALSE(connection.loss(begin + kSilence - 1us));
  const auto loss = connection.loss(Clock::now() + kSilence);
  ASSERT_TRUE(loss);
  EXPECT_EQ(loss->why, "no word from it for 4 s");
  EXPECT_LE(loss->when, Clock::now() + kSilence / kPingsInSilence);
}

TEST(AgentConnection, OfAnElasticJobIsLostEarlierUnlessThisProcessStoodStill) {
  AgentConnection connection(road_through(kGreet + "exec sleep 1000"), Clock::now());
  read_until_greeted(connection);
  const TimePoint begin = Clock::now();
  connection.set_silence(1s, begin);
  connection.speak(begin);
  EXPECT_EQ(connection.next(), begin + 250ms);
  EXPECT_FALSE(connection.loss(begin + 900ms));
  connection.read(begin + 3s);
  EXPECT_FALSE(connection.loss(begin + 3s)) << "nobody has sent a ping for so long";
  const auto loss = connection.loss(begin + 4s);
  ASSERT_TRUE(loss);
  EXPECT_EQ(loss->why, "no word from it for 1 s");
}

TEST(AgentConnection, GivesTheProgramASecondToEndAfterItsOutput) {
  // The words before the greeting are of login and dropped, so the script waits for the ping after it.
  const std::string end = "head -c 1 > /dev/null; echo torn >&2; exec sleep 1000 >&- 2>&-";
  AgentConnection connection(road_through(kGreet + end), Clock::now());
  read_until_greeted(connection);
  const TimePoint now = Clock::now();
  do {
    wait(connection);
    connection.read(now);
    EXPECT_FALSE(connection.loss(now));
  } while (!connection.closed());
  EXPECT_EQ(connection.next(), now + 1s);
  EXPECT_FALSE(connection.loss(now + 999ms));
  const auto loss = connection.loss(now + 1s);
  ASSERT_TRUE(loss);
  EXPECT_EQ(loss->why, "the connection to its agent ended (code 255): torn");
}

TEST(AgentConnection, ExplainsAProgramThatEndsBeforeTheGreeting) {
  AgentConnection connection(road_through("echo no route >&2; exec >&-; exec sleep 1000"), Clock::now());
  EXPECT_EQ(loss_of(connection).why, "no route with 255");
}

TEST(AgentConnection, SendsAndReadsNothingOnceItIsDropped) {
  AgentConnection connection(road_through(kGreet + "exec cat"), Clock::now());
  read_until_greeted(connection);
  EXPECT_EQ(next_message(connection).word, Word::ping);
  connection.send(Word::kill);
  connection.drop();
  connection.read(Clock::now());
  EXPECT_FALSE(connection.next_message(Clock::now()));
  EXPECT_EQ(connection.next(), TimePoint::max());
  std::vector<pollfd> events;
  connection.watch(events);
  EXPECT_TRUE(events.empty());
}

}  // namespace
}  // namespace hora::hrun
