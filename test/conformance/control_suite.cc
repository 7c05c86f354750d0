// SPDX-License-Identifier: Apache-2.0
// The contract of every Control.
#include "test/conformance/control_suite.h"

#include "core/join/exchange.h"
#include "test/support/threads.h"

#include <gmock/gmock.h>

#include <future>
#include <semaphore>

namespace hora {

std::vector<ControlBackend>& control_backends() {
  static std::vector<ControlBackend> backends;
  return backends;
}

namespace {

constexpr TimePoint kForever = TimePoint::max();

class ControlSuite : public testing::TestWithParam<ControlBackend> {
 protected:
  static std::vector<std::unique_ptr<Control>> connect(int ranks) { return GetParam().connect(ranks); }
};

Bytes bytes_of(int number) { return {static_cast<std::byte>(number), static_cast<std::byte>(number >> 8)}; }

int number_of(const Bytes& bytes) {
  return std::to_integer<int>(bytes[0]) + 256 * std::to_integer<int>(bytes[1]);
}

/// The next event, however often this rank is woken before.
ControlEvent next_event(Control& control) {
  while (true) {
    if (auto event = control.receive(kForever)) return *std::move(event);
  }
}

ControlMessage next(Control& control) { return expect_message(next_event(control)); }

PeerLost next_loss(Control& control) { return std::get<PeerLost>(next_event(control)); }

TEST_P(ControlSuite, MessagesOfOneSenderArriveInOrder) {
  const auto controls = connect(3);
  run_ranks(3, [&](int rank) {
    Control& control = *controls[static_cast<std::size_t>(rank)];
    if (rank != 0) {
      for (int i = 0; i < 1000; ++i) control.send(0, bytes_of(i));
      for (int i = 0; i < 1000; ++i) ASSERT_EQ(next(control).bytes, bytes_of(i));
      return;
    }
    std::vector<int> seen(3);
    for (int i = 0; i < 2000; ++i) {
      const ControlMessage message = next(control);
      ASSERT_EQ(message.bytes, bytes_of(seen[static_cast<std::size_t>(message.from)]++));
    }
    for (int i = 0; i < 1000; ++i) {
      for (int to = 1; to < 3; ++to) control.send(to, bytes_of(i));
    }
  });
}

TEST_P(ControlSuite, AMessageSaysWhenItCame) {
  const auto controls = connect(2);
  const TimePoint sent = Clock::now();
  controls[1]->send(0, bytes_of(1));
  controls[1]->send(0, bytes_of(2));
  const ControlMessage one = next(*controls[0]);  // the other one follows on its heels, or has come with it
  const TimePoint after = Clock::now();
  const ControlMessage other = next(*controls[0]);
  EXPECT_GE(one.came, sent);
  EXPECT_LE(one.came, after);
  EXPECT_GE(other.came, one.came);
}

TEST_P(ControlSuite, LargeMessagesArriveWhole) {
  const auto controls = connect(2);
  const Bytes large(3'000'000, std::byte{7});
  run_ranks(2, [&](int rank) {
    if (rank == 1) {
      controls[1]->send(0, large);
      EXPECT_EQ(next(*controls[1]).bytes, large);
    } else {
      EXPECT_EQ(next(*controls[0]).bytes, large);
      controls[0]->send(1, large);
    }
  });
}

TEST_P(ControlSuite, ReceiveReturnsAtTheDeadline) {
  const auto controls = connect(2);
  EXPECT_EQ(controls[0]->receive(Clock::now()), std::nullopt);
  EXPECT_EQ(controls[1]->receive(TimePoint::min()), std::nullopt);
}

TEST_P(ControlSuite, TellsOfAMessageThatHasCome) {
  if (GetParam().in_shared_memory) GTEST_SKIP() << "messages ring the wake-up of the vote";
  const auto controls = connect(2);
  std::counting_semaphore<> told(0);
  controls[0]->on_event([&] { told.release(); });
  controls[1]->send(0, Bytes(1, std::byte{1}));
  do told.acquire();  // perhaps of a message that was received while the ranks met
  while (!controls[0]->receive(TimePoint::min()));
  controls[0]->on_event({});
}

TEST_P(ControlSuite, AFailureReachesEveryOtherRankAsALoss) {
  for (int failing = 0; failing < 3; ++failing) {
    const auto controls = connect(3);
    std::vector<std::promise<Status>> noticed(3);
    for (std::size_t rank = 0; rank < 3; ++rank) {
      controls[rank]->on_loss([&noticed, rank, done = std::make_shared<bool>()](const Status& why) {
        if (!std::exchange(*done, true)) noticed[rank].set_value(why);
      });
    }
    controls[static_cast<std::size_t>(failing)]->fail({Code::internal, "out of luck"});
    for (int rank = 0; rank < 3; ++rank) {
      if (rank == failing) continue;
      const PeerLost lost = next_loss(*controls[static_cast<std::size_t>(rank)]);
      EXPECT_EQ(lost.rank, failing);
      EXPECT_EQ(lost.why.code, Code::aborted);
      EXPECT_THAT(lost.why.message, testing::AllOf(testing::StartsWith("rank " + std::to_string(failing)),
                                                   testing::EndsWith(" failed: out of luck")));
      EXPECT_EQ(noticed[static_cast<std::size_t>(rank)].get_future().get(), lost.why);
    }
    for (const auto& control : controls) control->on_loss({});
  }
}

TEST_P(ControlSuite, AJobThatIsCalledOffEndsOnEveryRankWithTheSameWords) {
  for (std::size_t caller = 0; caller < 3; ++caller) {
    const auto controls = connect(3);
    std::vector<std::promise<Status>> noticed(3);
    for (std::size_t rank = 0; rank < 3; ++rank) {
      controls[rank]->on_loss([&noticed, rank, done = std::make_shared<bool>()](const Status& why) {
        if (!std::exchange(*done, true)) noticed[rank].set_value(why);
      });
    }
    const Status why{Code::timeout, "'grad' has been waited for"};
    controls[caller]->call_off(why);
    for (std::size_t rank = 0; rank < 3; ++rank) {
      const PeerLost lost = next_loss(*controls[rank]);
      EXPECT_EQ(lost.rank, -1);
      EXPECT_EQ(lost.why, why);
      EXPECT_EQ(noticed[rank].get_future().get(), why);
    }
    for (const auto& control : controls) control->on_loss({});
  }
}

TEST_P(ControlSuite, ALossThatCameBeforeTheNoticeIsNoticedAtOnce) {
  const auto controls = connect(2);
  controls[1]->fail({Code::internal, "early"});
  const PeerLost lost = next_loss(*controls[0]);
  Status noticed;
  controls[0]->on_loss([&](const Status& why) { noticed = why; });
  EXPECT_EQ(noticed, lost.why);
  controls[0]->on_loss({});
}

TEST_P(ControlSuite, WhatIsAnnouncedReachesThoseItIsForInOneOrder) {
  const auto controls = connect(6);
  run_ranks(6, [&](int rank) {
    Control& control = *controls[static_cast<std::size_t>(rank)];
    const RankSet even(std::vector<int>{2, 4});
    for (int i = 0; i < 500; ++i) {
      const bool all = i % 3 != 0;
      if (rank == 0) {
        control.announce(all ? RankSet(1, 6) : even, bytes_of(i));
      } else if (all || even.contains(rank)) {
        const ControlMessage message = next(control);
        ASSERT_EQ(message.bytes, bytes_of(i));
        ASSERT_EQ(message.from, 0);
      }
    }
  });
}

TEST_P(ControlSuite, WhatFollowsFromAnAnnouncementReachesTheParentAfterIt) {
  const auto controls = connect(6);
  run_ranks(6, [&](int rank) {
    Control& control = *controls[static_cast<std::size_t>(rank)];
    for (int round = 0; round < 200; ++round) {
      if (rank == 0) {
        control.announce(RankSet(1, 6), bytes_of(round));
      } else {
        // A child's answers to former rounds may come first, one to this round may not.
        ControlMessage message = next(control);
        while (message.from != 0) {
          ASSERT_LT(number_of(message.bytes), round);
          message = next(control);
        }
        ASSERT_EQ(message.bytes, bytes_of(round));
        control.send(control.position().parent, bytes_of(round));
      }
    }
  });
}

TEST_P(ControlSuite, RanksTellEachOtherWhoTheyAre) {
  const auto controls = connect(4);
  run_ranks(4, [&](int rank) {
    for (int round = 0; round < 20; ++round) {
      const Bytes mine = rank == 2 ? Bytes() : bytes_of(rank * 100 + round);
      const auto all = exchange(*controls[static_cast<std::size_t>(rank)], mine, kForever);
      ASSERT_EQ(all.size(), 4u);
      for (int other = 0; other < 4; ++other) {
        ASSERT_EQ(all[static_cast<std::size_t>(other)], other == 2 ? Bytes() : bytes_of(other * 100 + round));
      }
    }
  });
}

TEST_P(ControlSuite, AnExchangeThatNobodyJoinsEndsAtTheDeadlineAndNamesWhoIsMissing) {
  const auto controls = connect(3);
  try {
    exchange(*controls[0], bytes_of(1), Clock::now());
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::timeout);
    EXPECT_NE(std::string(error.what()).find("rank(s) 1, 2"), std::string::npos) << error.what();
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, ControlSuite, testing::ValuesIn(control_backends()),
                         [](const auto& param) { return param.param.name; });

}  // namespace
}  // namespace hora
