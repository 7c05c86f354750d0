// SPDX-License-Identifier: Apache-2.0
#include "core/backend/tcp/messages/message_sender.h"

#include "core/join/acceptor.h"
#include "test/support/correspondence.h"

#include <gtest/gtest.h>

namespace hora::tcp {
namespace {

/// The sender of rank 0, and rank 1, which accepts connections and says nothing.
class SenderOfTwo : public testing::Test {
 protected:
  static World make_world() {
    World world;
    world.membership.size = 2;
    world.membership.secret[0] = 7;
    world.members = {{0, 10, "a", ""}, {1, 11, "a", ""}};
    return world;
  }

  PendingTransfer send(std::size_t count) {
    auto mail = std::make_shared<Transfer>();
    mail->values = counting(count, 5);
    sender_.send({1, numbers(0, 2, count), mail->values.data(),
                  [mail](const Status& status) { mail->outcome.set(status, nullptr); }});
    return mail;
  }
  /// Goes on until rank 1 has accepted a connection, which it returns.
  Connection connect() {
    while (true) {
      EXPECT_TRUE(sender_.turn(Clock::now()));
      auto arrivals = acceptor_.serve(Clock::now());
      if (!arrivals.empty()) return std::move(arrivals.front().connection);
      std::vector<pollfd> events{wake_up_.event()};
      sender_.append_to(events);
      acceptor_.append_to(events);
      ::poll(events.data(), events.size(), milliseconds_until(std::min(sender_.next(), acceptor_.next())));
      wake_up_.silence();
    }
  }
  /// Lets the sender see what has become of its connections.
  void look() {
    std::vector<pollfd> events;
    sender_.append_to(events);
    ::poll(events.data(), events.size(), -1);
    sender_.turn(Clock::now());
  }

  Descriptor listener_ = listen_at({"127.0.0.1", "0"});
  Address place_ = local_address(listener_.fd());
  World world_ = make_world();
  EventFd wake_up_;
  MessageSender sender_{world_, {}, {{}, {place_}}, wake_up_};
  Acceptor acceptor_{std::move(listener_), world_.membership.secret, 1};
};

TEST_F(SenderOfTwo, EndsAllMessagesWithTheFirstStatusWhenTheJobIsAborted) {
  const PendingTransfer small = send(1);
  const PendingTransfer large = send(50'000);
  sender_.abort({Code::aborted, "first"});
  sender_.abort({Code::aborted, "second"});
  EXPECT_FALSE(small->outcome.told()) << "the I/O thread tells it";
  EXPECT_FALSE(sender_.turn(Clock::now()));
  EXPECT_EQ(small->outcome.wait().message, "first");
  EXPECT_EQ(large->outcome.wait().message, "first");
  EXPECT_THROW(send(1), Error);
}

TEST_F(SenderOfTwo, SendsNothingAfterItHasLeft) {
  const auto told = std::make_shared<int>();
  sender_.leave(told);
  EXPECT_EQ(told.use_count(), 1) << "no rank needs to hear it";
  EXPECT_THROW(send(1), Error);
}

TEST_F(SenderOfTwo, EndsWhatARankThatHasLeftDoesNotAskFor) {
  const PendingTransfer announced = send(50'000);
  const PendingTransfer whole = send(1);
  sender_.hear_leave(1);
  EXPECT_EQ(announced->outcome.wait().message, "rank 1 has left the job (shutdown)");
  EXPECT_FALSE(whole->outcome.told()) << "it is on its way";
  EXPECT_EQ(send(1)->outcome.wait().message, "rank 1 has left the job (shutdown)");
}

TEST_F(SenderOfTwo, GivesControlTheTimeToExplainALostConnection) {
  const PendingTransfer announced = send(50'000);
  connect();  // and closes
  look();
  const TimePoint due = sender_.next();
  EXPECT_LT(due, TimePoint::max());
  EXPECT_TRUE(sender_.turn(due - std::chrono::nanoseconds(1)));
  EXPECT_FALSE(announced->outcome.told());
  EXPECT_TRUE(sender_.turn(due));
  const std::string expected = "the connection for messages with rank 1 broke: ";
  EXPECT_EQ(announced->outcome.wait().message.substr(0, expected.size()), expected);
  EXPECT_EQ(send(1)->outcome.wait().message.substr(0, expected.size()), expected);
  EXPECT_EQ(sender_.next(), TimePoint::max());
}

}  // namespace
}  // namespace hora::tcp
