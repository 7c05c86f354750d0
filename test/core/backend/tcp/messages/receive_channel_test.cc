// SPDX-License-Identifier: Apache-2.0
#include "core/backend/tcp/messages/receive_channel.h"

#include "core/backend/tcp/messages/message_reader.h"
#include "test/support/correspondence.h"
#include "test/support/sessions.h"
#include "test/support/socket_pair.h"

#include <gtest/gtest.h>

namespace hora::tcp {
namespace {

using Kind = MessageFrameKind;

/// The receiving side of rank 0, and what the sender, rank 1, hears of it.
class Receiving : public testing::Test {
 protected:
  Receiving() { reader_.open(std::move(sessions_.second.receives)); }
  std::optional<MessageFrame> next() {
    const auto received = reader_.next(there_);
    return received ? std::optional(received->frame) : std::nullopt;
  }

  std::array<Descriptor, 2> sockets_ = socket_pair();
  std::pair<SessionKeys, SessionKeys> sessions_ = make_sessions();
  DataSocket there_{std::move(sockets_[1])};
  ReceiveChannel channel_{DataSocket(std::move(sockets_[0])), std::move(sessions_.first.sends)};
  MessageReader reader_{0};
  Calls calls_;
};

TEST_F(Receiving, AsksForElementsAndKnowsWhereTheyGo) {
  Numbers output(100);
  Outcome outcome;
  const Envelope envelope = numbers(1, 0, 100);
  channel_.request(
      4,
      {envelope,
       reinterpret_cast<std::byte*>(output.data()),
       {{1, 0}, {}, [&](const Status& status, const Envelope* found) { outcome.set(status, found); }}},
      calls_);
  channel_.refuse(5, calls_);
  EXPECT_EQ(next(), (MessageFrame{Kind::request, 4, {}}));
  EXPECT_EQ(next(), (MessageFrame{Kind::refusal, 5, {}}));
  EXPECT_EQ(channel_.destination(4).data(), reinterpret_cast<std::byte*>(output.data()));
  EXPECT_EQ(channel_.destination(4).size(), 400U);
  EXPECT_THROW(static_cast<void>(channel_.destination(5)), Error);
  channel_.hear({Kind::content, 4, {}}, calls_);
  run(calls_);
  EXPECT_TRUE(outcome.wait().ok());
  EXPECT_EQ(outcome.envelope(), envelope);
  EXPECT_THROW(static_cast<void>(channel_.destination(4)), Error);
}

TEST_F(Receiving, FailsWhatHasBeenAskedFor) {
  Outcome outcome;
  channel_.request(
      1,
      {numbers(1, 0, 0),
       nullptr,
       {{1, 0}, {}, [&](const Status& status, const Envelope* found) { outcome.set(status, found); }}},
      calls_);
  channel_.fail({Code::aborted, "over"}, calls_);
  run(calls_);
  EXPECT_EQ(outcome.wait().message, "over");
  EXPECT_EQ(outcome.envelope(), std::nullopt);
}

TEST_F(Receiving, GivesCreditInSteps) {
  std::size_t given = 0;
  std::size_t taken = 0;
  for (int i = 0; i < 1000; ++i) {
    channel_.hear_whole(8000);
    channel_.give_credit(8000, calls_);
    taken += cost(8000);
    if (const auto credit = next()) given += credit->number;
  }
  EXPECT_GT(given, kCredit);
  EXPECT_LT(taken - given, kCredit / 4);
}

TEST_F(Receiving, RefusesWhatNoSenderSays) {
  const auto send_for_ever = [&] {
    while (true) channel_.hear_whole(kMostUnasked);
  };
  EXPECT_THROW(send_for_ever(), Error);
  channel_.hear_announcement(1);
  EXPECT_THROW(channel_.hear_announcement(1), Error);
}

}  // namespace
}  // namespace hora::tcp
