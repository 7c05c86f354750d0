// SPDX-License-Identifier: Apache-2.0
#include "core/backend/tcp/messages/send_channel.h"

#include "test/support/correspondence.h"
#include "test/support/sessions.h"
#include "test/support/socket_pair.h"

#include <gtest/gtest.h>

namespace hora::tcp {
namespace {

using Kind = MessageFrameKind;

/// The channel of rank 0 to rank 1, and what rank 1 gets.
class Sending : public testing::Test {
 protected:
  Sending() : reader_(0, [this](std::uint64_t) { return std::span(content_); }) {
    reader_.open(std::move(sessions_.second.receives));
  }

  PendingTransfer send(std::size_t count) {
    auto mail = std::make_shared<Transfer>();
    mail->values = counting(count, 5);
    Calls calls;
    channel_.send({1, numbers(0, 2, count), mail->values.data(),
                   [mail](const Status& status) { mail->outcome.set(status, nullptr); }},
                  calls);
    run(calls);
    return mail;
  }
  void open() {
    Calls calls;
    channel_.open(DataSocket(std::move(sockets_[0])), std::move(sessions_.first), calls);
    run(calls);
  }
  void answer(const MessageFrame& frame) {
    const Bytes bytes = seal_message_head(sessions_.second.sends, encode(frame));
    ASSERT_EQ(::send(there_.fd(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
    turn();
  }
  void turn() {
    Calls calls;
    channel_.turn(calls);
    run(calls);
  }
  /// The next frame that arrives at the other side.
  MessageFrame next() {
    while (true) {
      if (const auto received = reader_.next(there_)) return received->frame;
      turn();
    }
  }
  bool silent() { return !reader_.next(there_); }

  std::array<Descriptor, 2> sockets_ = socket_pair();
  DataSocket there_{std::move(sockets_[1])};
  std::pair<SessionKeys, SessionKeys> sessions_ = make_sessions();
  SendChannel channel_{1};
  Bytes content_;
  MessageReader reader_;
};

TEST_F(Sending, WaitsForASocket) {
  EXPECT_FALSE(channel_.has_more());
  const PendingTransfer small = send(3);
  EXPECT_TRUE(channel_.has_more());
  EXPECT_FALSE(small->outcome.told());
  open();
  EXPECT_TRUE(small->outcome.told());
  EXPECT_EQ(next(), (MessageFrame{Kind::whole, 0, numbers(0, 2, 3)}));
}

TEST_F(Sending, AnnouncesWhatIsLargeAndSendsItWhenItIsAskedFor) {
  open();
  const PendingTransfer large = send(50'000);
  const PendingTransfer unwanted = send(60'000);
  EXPECT_EQ(next(), (MessageFrame{Kind::announcement, 1, numbers(0, 2, 50'000)}));
  EXPECT_EQ(next(), (MessageFrame{Kind::announcement, 2, numbers(0, 2, 60'000)}));
  answer({Kind::refusal, 2, {}});
  EXPECT_TRUE(unwanted->outcome.wait().ok());
  EXPECT_FALSE(large->outcome.told());
  content_.resize(200'000);
  answer({Kind::request, 1, {}});
  EXPECT_EQ(next().kind, Kind::content);
  EXPECT_TRUE(large->outcome.wait().ok());
  EXPECT_EQ(reinterpret_cast<const std::int32_t*>(content_.data())[49'999], 50'004);
}

TEST_F(Sending, AnnouncesSmallOnesWhenTheCreditIsUsedUp) {
  open();
  const auto each = cost(4 * 1000);
  for (std::size_t used = 0; used + each <= kCredit; used += each) {
    send(1000);
    ASSERT_EQ(next().kind, Kind::whole);
  }
  const PendingTransfer waiting = send(1000);
  EXPECT_EQ(next().kind, Kind::announcement);
  EXPECT_FALSE(waiting->outcome.told());
  answer({Kind::credit, each, {}});
  send(1000);
  EXPECT_EQ(next().kind, Kind::whole);
  send(0);
  EXPECT_TRUE(next().kind == Kind::whole || kCredit % each < cost(0));
  EXPECT_TRUE(silent());
}

TEST_F(Sending, RefusesWhatNoReceiverSays) {
  open();
  send(50'000);
  EXPECT_THROW(answer({Kind::request, 2, {}}), Error);
  EXPECT_THROW(answer({Kind::refusal, 0, {}}), Error);
  EXPECT_THROW(answer({Kind::credit, 1, {}}), Error);
}

TEST_F(Sending, FailsWhatHasNotBeenSent) {
  const PendingTransfer small = send(1);
  const PendingTransfer large = send(50'000);
  Calls calls;
  channel_.fail({Code::aborted, "over"}, calls);
  run(calls);
  EXPECT_EQ(small->outcome.wait().message, "over");
  EXPECT_EQ(large->outcome.wait().message, "over");
  EXPECT_FALSE(channel_.has_more());
}

TEST_F(Sending, StartsAnewWhenTheWayWasFoundAfterAFailure) {
  send(50'000);
  Calls calls;
  channel_.fail({Code::unavailable, "out of reach"}, calls);
  run(calls);
  open();
  send(60'000);
  EXPECT_EQ(next(), (MessageFrame{Kind::announcement, 1, numbers(0, 2, 60'000)}));
}

}  // namespace
}  // namespace hora::tcp
