// SPDX-License-Identifier: Apache-2.0
#include "core/join/acceptor.h"

#include "core/join/address.h"
#include "core/join/connector.h"
#include "core/join/peer_list.h"
#include "test/support/middleman.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <thread>

namespace hora {
namespace {

const Secret kShared{5};

/// Sends the introduction of rank 1.
void introduce(const Descriptor& socket) {
  SessionKeys session = greet(socket.fd(), kShared, {Role::control, 1, 2}, TimePoint::max());
  write_all(socket.fd(), seal_frame(session.sends, FrameKind::member, encode(this_member(1))),
            TimePoint::max());
}

class AcceptorTest : public testing::Test {
 protected:
  AcceptorTest() : listener_(listen_at({"127.0.0.1", "0"})), address_(local_address(listener_.fd())) {}
  [[nodiscard]] Descriptor connect() const {
    Descriptor socket = begin_connect(address_);
    EXPECT_TRUE(await_events(socket.fd(), POLLOUT, Clock::now() + std::chrono::seconds(5)));
    return socket;
  }

  Descriptor listener_;
  Address address_;
};

TEST_F(AcceptorTest, LetsInWhoKnowsTheSecretThoughSilentConnectionsWaitBeforeIt) {
  Acceptor acceptor(std::move(listener_), kShared);
  std::vector<Descriptor> silent;
  for (int i = 0; i < 5; ++i) silent.push_back(connect());
  std::thread initiator([this] {
    const Descriptor socket = connect();
    introduce(socket);
    std::byte end{};
    await_events(socket.fd(), POLLIN, TimePoint::max());
    EXPECT_LE(::recv(socket.fd(), &end, 1, 0), 0);
  });
  std::vector<Acceptor::Arrival> arrivals;
  while (arrivals.empty()) {
    std::vector<pollfd> events;
    acceptor.append_to(events);
    ::poll(events.data(), events.size(), milliseconds_until(acceptor.next()));
    arrivals = acceptor.serve(Clock::now());
  }
  EXPECT_EQ(arrivals.front().hello.rank, 1);
  arrivals.clear();
  initiator.join();
}

TEST_F(AcceptorTest, RefusesUnknownProcessesAndSaysSoOnce) {
  Acceptor acceptor(std::move(listener_), kShared);
  testing::internal::CaptureStderr();
  for (int i = 0; i < 3; ++i) {
    const Descriptor socket = connect();
    const Bytes nonsense(kHelloBytes, std::byte{'G'});
    write_all(socket.fd(), nonsense, TimePoint::max());
    std::byte answer{};
    while (!await_events(socket.fd(), POLLIN, TimePoint::min()))
      EXPECT_TRUE(acceptor.serve(Clock::now()).empty());
    EXPECT_LE(::recv(socket.fd(), &answer, 1, 0), 0) << "no answer but the end";
  }
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_EQ(log.find("refused"), log.rfind("refused"));
  EXPECT_NE(log.find("not a rank of Hora"), std::string::npos) << log;
}

TEST_F(AcceptorTest, ClosesSilentConnectionsAfterFiveSeconds) {
  Acceptor acceptor(std::move(listener_), kShared);
  const Descriptor socket = connect();
  const TimePoint now = Clock::now();
  while (acceptor.next() == TimePoint::max()) acceptor.serve(now);
  EXPECT_EQ(acceptor.next(), now + std::chrono::seconds(5));
  testing::internal::CaptureStderr();
  acceptor.serve(now + std::chrono::seconds(5));
  EXPECT_NE(testing::internal::GetCapturedStderr().find("within 5 s"), std::string::npos);
  std::byte end{};
  await_events(socket.fd(), POLLIN, TimePoint::max());
  EXPECT_EQ(::recv(socket.fd(), &end, 1, 0), 0);
}

/// A connection whose hello has been sent, and nothing more.
Descriptor half_way(Descriptor socket) {
  write_all(socket.fd(), Initiator(kShared, {Role::control, 1, 2}).hello(), TimePoint::max());
  return socket;
}

TEST_F(AcceptorTest, WhenItIsFullSilentOnesGoFirst) {
  constexpr std::size_t kMost = 64;
  Acceptor acceptor(std::move(listener_), kShared);
  const TimePoint now = Clock::now();
  std::vector<pollfd> events;
  const auto inside = [&] {
    events.clear();
    acceptor.append_to(events);
    return events.size() - 1;
  };
  std::vector<Descriptor> speaking;
  speaking.push_back(half_way(connect()));
  while (inside() < 1) acceptor.serve(now);
  const Descriptor silent = connect();
  while (inside() < 2) acceptor.serve(now);
  for (std::size_t i = 1; i < kMost; ++i) speaking.push_back(half_way(connect()));
  while (inside() < kMost) acceptor.serve(now);
  EXPECT_EQ(events.front().fd, -1) << "there is no room";
  EXPECT_EQ(acceptor.next(), now + std::chrono::milliseconds(100));
  acceptor.serve(now + std::chrono::milliseconds(90));
  EXPECT_EQ(inside(), kMost);
  EXPECT_FALSE(await_events(silent.fd(), POLLIN, TimePoint::min()));
  acceptor.serve(now + std::chrono::milliseconds(100));
  EXPECT_TRUE(await_events(silent.fd(), POLLIN, Clock::now() + std::chrono::seconds(5)));
  for (const auto& socket : speaking)
    EXPECT_TRUE(await_events(socket.fd(), POLLIN, Clock::now() + std::chrono::seconds(5)))
        << "each is answered";
}

TEST_F(AcceptorTest, WhoSaysHelloAndNoMoreGivesWayAfterASecond) {
  constexpr std::size_t kMost = 64;
  Acceptor acceptor(std::move(listener_), kShared);
  const TimePoint now = Clock::now();
  const HelloBytes recorded = Initiator(kShared, {Role::control, 1, 2}).hello();
  std::vector<Descriptor> replays;
  std::vector<pollfd> events;
  for (std::size_t i = 0; i < kMost; ++i) {
    replays.push_back(connect());
    write_all(replays.back().fd(), recorded, TimePoint::max());
  }
  for (const auto& socket : replays) {
    while (!await_events(socket.fd(), POLLIN, TimePoint::min())) acceptor.serve(now);
  }
  const TimePoint later = now + std::chrono::seconds(1);
  EXPECT_EQ(acceptor.next(), later);
  std::thread initiator([this] { introduce(connect()); });
  std::vector<Acceptor::Arrival> arrivals;
  while (arrivals.empty()) arrivals = acceptor.serve(later);
  EXPECT_EQ(arrivals.front().hello.rank, 1);
  initiator.join();
}

TEST_F(AcceptorTest, AVisitThatIsPlayedAgainLetsNobodyIn) {
  Acceptor acceptor(std::move(listener_), kShared);
  Middleman middleman(address_);
  std::thread initiator([&middleman] {
    const Descriptor socket = begin_connect(middleman.address());
    EXPECT_TRUE(await_events(socket.fd(), POLLOUT, Clock::now() + std::chrono::seconds(5)));
    introduce(socket);
  });
  std::vector<Acceptor::Arrival> arrivals;
  while (arrivals.empty()) arrivals = acceptor.serve(Clock::now());
  initiator.join();
  const Bytes visit = middleman.said();
  ASSERT_GT(visit.size(), kHelloBytes + kProofBytes + kSealedHeadBytes);
  const Descriptor replay = connect();
  write_all(replay.fd(), visit, TimePoint::max());
  Bytes answer(1000);
  std::size_t answered = 0;
  testing::internal::CaptureStderr();
  while (true) {
    EXPECT_TRUE(acceptor.serve(Clock::now()).empty());
    const auto got = ::recv(replay.fd(), answer.data(), answer.size(), MSG_DONTWAIT);
    if (got == 0 || (got < 0 && errno != EAGAIN)) break;
    if (got > 0) answered += static_cast<std::size_t>(got);
  }
  testing::internal::GetCapturedStderr();
  EXPECT_LE(answered, kAnswerBytes);
}

TEST_F(AcceptorTest, AThousandIdleConnectionsCostSixtyFourPlacesAndHoldUpNobody) {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
  Acceptor acceptor(std::move(listener_), kShared);
  std::vector<Descriptor> idle;
  for (int i = 0; i < 1000; ++i) {
    idle.push_back(connect());
    if (i % 2 == 0) write_all(idle.back().fd(), std::array{std::byte{'H'}}, TimePoint::max());
  }
  std::thread initiator([this] {
    Connector connector(kShared, {Role::message, 1, 2}, {address_}, Clock::now());
    while (!connector.serve(Clock::now())) {
      std::vector<pollfd> events;
      connector.append_to(events);
      ::poll(events.data(), events.size(), milliseconds_until(connector.next()));
    }
  });
  std::vector<Acceptor::Arrival> arrivals;
  while (arrivals.empty()) {
    std::vector<pollfd> events;
    acceptor.append_to(events);
    EXPECT_LE(events.size(), 65U);
    ::poll(events.data(), events.size(), milliseconds_until(acceptor.next()));
    arrivals = acceptor.serve(Clock::now());
  }
  EXPECT_EQ(arrivals.front().hello.rank, 1);
  initiator.join();
}

TEST_F(AcceptorTest, WaitsForDescriptorsWithoutSpinningAndSaysSo) {
  Acceptor acceptor(std::move(listener_), kShared);
  const Descriptor initiator = connect();
  rlimit before{};
  ::getrlimit(RLIMIT_NOFILE, &before);
  const rlimit none{0, before.rlim_max};
  testing::internal::CaptureStderr();
  ::setrlimit(RLIMIT_NOFILE, &none);
  const TimePoint now = Clock::now();
  acceptor.serve(now);
  ::setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_NE(testing::internal::GetCapturedStderr().find("ulimit -n"), std::string::npos);
  std::vector<pollfd> events;
  acceptor.append_to(events);
  EXPECT_EQ(events.front().fd, -1);
  EXPECT_GT(acceptor.next(), now);
  EXPECT_LT(acceptor.next(), now + std::chrono::seconds(1));
  acceptor.serve(acceptor.next());
  events.clear();
  acceptor.append_to(events);
  EXPECT_EQ(events.size(), 2U) << "let in";
}

}  // namespace
}  // namespace hora
