// SPDX-License-Identifier: Apache-2.0
#include "core/backend/tcp/messages/message_receiver.h"

#include "test/support/correspondence.h"
#include "test/support/sessions.h"
#include "test/support/socket_pair.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

namespace hora::tcp {
namespace {

using Kind = MessageFrameKind;

/// The receiver of rank 0 of three. Rank 1 is connected, and sees the answers.
class ReceiverOfThree : public testing::Test {
 protected:
  ReceiverOfThree() { answers_.open(std::move(sessions_.second.receives)); }

  PendingTransfer start_receive(int source, int tag) {
    auto mail = std::make_shared<Transfer>();
    receiver_.receive(
        {{source, tag},
         [mail](const Envelope& found) {
           mail->values.resize(static_cast<std::size_t>(found.shape.front()));
           return mail->values.data();
         },
         [mail](const Status& status, const Envelope* found) { mail->outcome.set(status, found); }});
    return mail;
  }
  void hear_whole(int tag, const Numbers& values) {
    receiver_.hear(1, {{Kind::whole, 0, numbers(1, tag, values.size())}, std::as_bytes(std::span(values))});
  }
  void hear_announcement(int tag, std::size_t count, std::uint64_t number) {
    receiver_.hear(1, {{Kind::announcement, number, numbers(1, tag, count)}, {}});
  }
  /// The elements of an announced message come, after they have been asked for.
  void hear_content(std::uint64_t number, const Numbers& values) {
    const auto memory = receiver_.destination(1, number);
    ASSERT_EQ(memory.size(), values.size() * sizeof(values.front()));
    std::memcpy(memory.data(), values.data(), memory.size());
    receiver_.hear(1, {{Kind::content, number, {}}, {}});
  }
  /// The next frame that rank 1 gets.
  std::optional<MessageFrame> answer() {
    const auto received = answers_.next(there_);
    return received ? std::optional(received->frame) : std::nullopt;
  }

  std::array<Descriptor, 2> sockets_ = socket_pair();
  std::pair<SessionKeys, SessionKeys> sessions_ = make_sessions();
  EventFd wake_up_;
  MessageReceiver receiver_{0, 3, wake_up_};
  DataSocket* here_ = receiver_.add(1, DataSocket(std::move(sockets_[0])), std::move(sessions_.first.sends));
  DataSocket there_{std::move(sockets_[1])};
  MessageReader answers_{0};
};

TEST_F(ReceiverOfThree, GivesEachReceiveTheNextMessageInWhateverOrderTheyCome) {
  std::mt19937 random(1);
  std::uint64_t announced = 0;
  Numbers values_of_announced;
  std::vector<PendingTransfer> receives;
  int sent = 0;
  const auto come = [&] {
    if (random() % 2 == 0) return hear_whole(3, {sent++});
    hear_announcement(3, 1, ++announced);
    values_of_announced.push_back(sent++);
  };
  const auto give_content = [&] {
    for (auto frame = answer(); frame; frame = answer()) {
      if (frame->kind != Kind::request) continue;  // credit
      hear_content(frame->number, {values_of_announced[frame->number - 1]});
    }
  };
  for (int step = 0; step < 2000; ++step) {
    if (random() % 2 == 0) come();
    if (random() % 2 == 0) receives.push_back(start_receive(random() % 2 == 0 ? 1 : kAnySource, 3));
    if (random() % 4 == 0) give_content();
  }
  while (sent < static_cast<int>(receives.size())) come();
  give_content();
  for (int i = 0; i < static_cast<int>(receives.size()); ++i) {
    ASSERT_TRUE(receives[static_cast<std::size_t>(i)]->outcome.told()) << i;
    ASSERT_EQ(receives[static_cast<std::size_t>(i)]->values, Numbers{i});
  }
}

TEST_F(ReceiverOfThree, RefusesAMessageThatItsReceiveDoesNotExpect) {
  hear_announcement(2, 50'000, 1);
  Outcome outcome;
  receiver_.receive({{1, 2},
                     [](const Envelope&) -> void* { throw Error(Code::invalid_argument, "too long"); },
                     [&](const Status& status, const Envelope* found) { outcome.set(status, found); }});
  EXPECT_EQ(outcome.wait().message, "too long");
  EXPECT_EQ(outcome.envelope(), numbers(1, 2, 50'000));
  EXPECT_EQ(answer(), (MessageFrame{Kind::refusal, 1, {}}));
}

TEST_F(ReceiverOfThree, GivesControlTheTimeToExplainALostConnection) {
  hear_whole(7, {4});
  hear_announcement(8, 50'000, 1);
  const PendingTransfer asked = start_receive(1, 8);
  const PendingTransfer waiting = start_receive(1, 5);
  const PendingTransfer any = start_receive(kAnySource, 5);
  hear_announcement(9, 50'000, 2);
  receiver_.lose(1, Error(Code::unavailable, "torn"));
  const TimePoint due = receiver_.next();
  EXPECT_TRUE(receiver_.turn(due - std::chrono::nanoseconds(1)));
  EXPECT_FALSE(asked->outcome.told());
  EXPECT_FALSE(waiting->outcome.told());
  EXPECT_TRUE(receiver_.turn(due));
  const std::string expected = "the connection for messages with rank 1 broke: torn";
  EXPECT_EQ(asked->outcome.wait().message, expected);
  EXPECT_EQ(waiting->outcome.wait().message, expected);
  EXPECT_EQ(start_receive(1, 5)->outcome.wait().message, expected);
  EXPECT_EQ(start_receive(1, 9)->outcome.wait().message, expected) << "nobody can send its elements";
  EXPECT_FALSE(any->outcome.told()) << "rank 2 may send it";
  EXPECT_EQ(start_receive(1, 7)->values, Numbers{4}) << "it had come whole";
  EXPECT_EQ(receiver_.next(), TimePoint::max());
}

TEST_F(ReceiverOfThree, StillAsksARankThatHasLeftForWhatThatHasAnnounced) {
  hear_announcement(2, 3, 1);
  receiver_.hear_leave(1);
  const PendingTransfer announced = start_receive(1, 2);
  EXPECT_EQ(answer(), (MessageFrame{Kind::request, 1, {}}));
  hear_content(1, {1, 2, 3});
  EXPECT_EQ(announced->values, (Numbers{1, 2, 3}));
  EXPECT_EQ(start_receive(1, 2)->outcome.wait().message, "rank 1 has left the job (shutdown)");
}

TEST_F(ReceiverOfThree, EndsAllReceivesWithTheFirstStatusWhenTheJobIsAborted) {
  hear_announcement(8, 50'000, 1);
  const PendingTransfer asked = start_receive(1, 8);
  const PendingTransfer waiting = start_receive(kAnySource, 5);
  receiver_.abort({Code::aborted, "first"});
  receiver_.abort({Code::aborted, "second"});
  EXPECT_FALSE(receiver_.turn(Clock::now()));
  EXPECT_EQ(asked->outcome.wait().message, "first");
  EXPECT_EQ(waiting->outcome.wait().message, "first");
  EXPECT_THROW(start_receive(1, 5), Error);
}

TEST_F(ReceiverOfThree, AShortageOfDescriptorsEndsTheReceivesThatMayNeedARankWhichHasNotConnected) {
  const PendingTransfer from_self = start_receive(0, 5);
  const PendingTransfer from_connected = start_receive(1, 5);
  const PendingTransfer from_other = start_receive(2, 5);
  const PendingTransfer any = start_receive(kAnySource, 5);
  receiver_.fail_unconnected({Code::unavailable, "no descriptors"});
  EXPECT_FALSE(from_self->outcome.told());
  EXPECT_FALSE(from_connected->outcome.told());
  EXPECT_EQ(from_other->outcome.wait().message, "no descriptors");
  EXPECT_EQ(any->outcome.wait().message, "no descriptors");

  auto sockets = socket_pair();
  auto sessions = make_sessions();
  EXPECT_NE(receiver_.add(2, DataSocket(std::move(sockets[0])), std::move(sessions.first.sends)), nullptr);
  const PendingTransfer later = start_receive(kAnySource, 5);
  receiver_.fail_unconnected({Code::unavailable, "no descriptors"});
  EXPECT_FALSE(later->outcome.told());
}

}  // namespace
}  // namespace hora::tcp
