// SPDX-License-Identifier: Apache-2.0
#include "core/backend/tcp/messages/incoming_connections.h"

#include "core/join/connector.h"
#include "test/support/correspondence.h"

#include <gtest/gtest.h>

#include <sys/socket.h>

namespace hora::tcp {
namespace {

/// Rank 0 of two, to which others connect.
class AcceptingRank : public testing::Test {
 protected:
  static World make_world() {
    World world;
    world.membership.size = 2;
    world.membership.secret[0] = 7;
    return world;
  }

  /// Waits for the events of rank 0, and for these, and lets rank 0 do what it can.
  void turn(std::vector<pollfd> others = {}, TimePoint until = TimePoint::max()) {
    std::vector<pollfd> events;
    connections_.append_to(events);
    events.insert(events.end(), others.begin(), others.end());
    ::poll(events.data(), events.size(), milliseconds_until(std::min(connections_.next(), until)));
    connections_.turn(events);
  }
  Connection connect(const Hello& hello) {
    Connector connector(world_.membership.secret, hello, {place_}, Clock::now());
    while (true) {
      if (auto connection = connector.serve(Clock::now())) return *std::move(connection);
      std::vector<pollfd> events;
      connector.append_to(events);
      turn(events, connector.next());
    }
  }
  /// The other end writes a message of one element.
  static void write(Connection& connection, std::int32_t value) {
    const Bytes head =
        seal_message_head(connection.session.sends, encode({MessageFrameKind::whole, 0, numbers(1, 3, 1)}));
    ASSERT_EQ(::send(connection.socket.fd(), head.data(), head.size(), 0), static_cast<ssize_t>(head.size()));
    ASSERT_EQ(::send(connection.socket.fd(), &value, sizeof value, 0), static_cast<ssize_t>(sizeof value));
  }
  /// The messages that rank 0 has got and not taken yet.
  Numbers take_all() {
    Numbers all;
    while (receiver_.probe({1, 3})) {
      receiver_.receive({{1, 3},
                         [&all](const Envelope&) { return &all.emplace_back(); },
                         [](const Status& status, const Envelope*) { EXPECT_TRUE(status.ok()); }});
    }
    return all;
  }
  /// Whether rank 0 closes the connection.
  bool is_closed(Connection& connection) {
    char byte = 0;
    while (true) {
      const auto got = ::recv(connection.socket.fd(), &byte, 1, MSG_DONTWAIT);
      if (got >= 0 || errno != EAGAIN) return got <= 0;
      turn({{connection.socket.fd(), POLLIN, 0}});
    }
  }

  World world_ = make_world();
  Descriptor listener_ = listen_at({"127.0.0.1", "0"});
  Address place_ = local_address(listener_.fd());
  EventFd wake_up_;
  MessageReceiver receiver_{0, 2, wake_up_};
  IncomingConnections connections_{world_, {}, std::move(listener_), receiver_};
};

TEST_F(AcceptingRank, ReadsABoundedNumberOfFramesAtATime) {
  Connection connection = connect({Role::message, 1, 2, 0});
  Numbers sent = counting(3 * IncomingConnections::kMostFrames, 0);
  for (const auto value : sent) write(connection, value);
  Numbers all;
  bool reached_the_bound = false;
  while (all.size() < sent.size()) {
    turn();
    const Numbers some = take_all();
    ASSERT_LE(some.size(), std::size_t{IncomingConnections::kMostFrames});
    if (some.size() == std::size_t{IncomingConnections::kMostFrames}) {
      reached_the_bound = true;
      EXPECT_EQ(connections_.next(), TimePoint::min()) << "poll() may know of nothing more";
    }
    all.insert(all.end(), some.begin(), some.end());
  }
  EXPECT_TRUE(reached_the_bound);
  EXPECT_EQ(all, sent);
}

TEST_F(AcceptingRank, ClosesWhatIsNoFirstConnectionForMessagesOfAnotherRank) {
  Connection first = connect({Role::message, 1, 2, 0});
  write(first, 4);
  while (take_all().empty()) turn();
  for (const Hello& hello : {Hello{Role::data, 1, 2, 0}, Hello{Role::message, 1, 3, 0},
                             Hello{Role::message, 0, 2, 0}, Hello{Role::message, 1, 2, 0}}) {
    Connection other = connect(hello);
    EXPECT_TRUE(is_closed(other)) << static_cast<int>(hello.role) << hello.rank << hello.size;
  }
  write(first, 5);
  while (take_all().empty()) turn();
}

TEST_F(AcceptingRank, TellsTheReceiverOfALostConnectionAndReadsItNoMore) {
  connect({Role::message, 1, 2, 0});  // and closes
  while (receiver_.next() == TimePoint::max()) turn();
  std::vector<pollfd> events;
  connections_.append_to(events);
  EXPECT_EQ(::poll(events.data(), events.size(), 0), 0);
}

}  // namespace
}  // namespace hora::tcp
