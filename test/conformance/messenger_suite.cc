// SPDX-License-Identifier: Apache-2.0
// The contract of every Messenger.
#include "test/conformance/messenger_suite.h"

#include "test/support/correspondence.h"
#include "test/support/threads.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <future>
#include <map>
#include <random>
#include <thread>

namespace hora {

std::vector<MessengerBackend>& messenger_backends() {
  static std::vector<MessengerBackend> backends;
  return backends;
}

namespace {

constexpr std::size_t kLargestUnasked = kMostUnasked / sizeof(std::int32_t);  // numbers in a message

class MessengerSuite : public testing::TestWithParam<MessengerBackend> {
 protected:
  void connect(int ranks) { messengers_ = GetParam().connect(ranks); }
  void disconnect() { messengers_.clear(); }
  Messenger& at(int rank) { return *messengers_[static_cast<std::size_t>(rank)]; }
  void each_rank(const std::function<void(int rank, Messenger& messenger)>& main) {
    run_ranks(static_cast<int>(messengers_.size()), [&](int rank) { main(rank, at(rank)); });
  }

 private:
  std::vector<std::unique_ptr<Messenger>> messengers_;
};

TEST_P(MessengerSuite, BringsMessagesOfEverySize) {
  connect(2);
  for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{1000}, kLargestUnasked,
                                  kLargestUnasked + 1, std::size_t{3'000'000}}) {
    const auto values = counting(count, static_cast<int>(count));
    each_rank([&](int rank, Messenger& messenger) {
      if (rank == 0) {
        EXPECT_TRUE(send(messenger, 1, 5, values).ok());
        return;
      }
      const PendingTransfer transfer = start_receive(messenger, 0, 5);
      EXPECT_TRUE(transfer->outcome.wait().ok());
      EXPECT_EQ(transfer->values, values);
      EXPECT_EQ(transfer->outcome.envelope(), numbers(0, 5, count));
    });
  }
}

TEST_P(MessengerSuite, SmallOnesAreDoneWithoutTheReceiverAndLargeOnesWithIt) {
  connect(2);
  EXPECT_TRUE(send(at(0), 1, 1, counting(kLargestUnasked, 0)).ok());
  const PendingTransfer large = start_send(at(0), 1, 2, counting(kLargestUnasked + 1, 7));
  const PendingTransfer last = start_send(at(0), 1, 3, {9});
  EXPECT_EQ(receive(at(1), 0, 3), Numbers{9});
  EXPECT_FALSE(large->outcome.told());
  EXPECT_EQ(receive(at(1), 0, kAnyTag), counting(kLargestUnasked, 0));
  EXPECT_EQ(receive(at(1), 0, kAnyTag), large->values);
  EXPECT_TRUE(large->outcome.wait().ok());
  EXPECT_TRUE(last->outcome.wait().ok());
}

TEST_P(MessengerSuite, KeepsTheOrderOfOneSenderAndChoosesByTag) {
  connect(2);
  each_rank([](int rank, Messenger& messenger) {
    constexpr int kMessages = 300;
    if (rank == 0) {
      std::vector<PendingTransfer> sent;
      for (int i = 0; i < kMessages; ++i)  // large and small ones in turns
        sent.push_back(start_send(messenger, 1, i % 2, counting(i % 7 == 0 ? 40'000 : 100, i)));
      for (auto& transfer : sent) EXPECT_TRUE(transfer->outcome.wait().ok());
      return;
    }
    for (const int tag : {1, 0}) {
      for (int i = tag; i < kMessages; i += 2) ASSERT_EQ(receive(messenger, 0, tag).front(), i);
    }
  });
}

TEST_P(MessengerSuite, ReceivesThatWaitGetMessagesInTheirOwnOrder) {
  connect(2);
  std::vector<PendingTransfer> waiting;
  for (int i = 0; i < 50; ++i) {
    waiting.push_back(start_receive(at(1), i % 3 == 0 ? kAnySource : 0, i % 2 == 0 ? 4 : kAnyTag));
  }
  for (int i = 0; i < 50; ++i) start_send(at(0), 1, 4, counting(i % 5 == 0 ? 30'000 : 10, i));
  for (int i = 0; i < 50; ++i) {
    const PendingTransfer& transfer = waiting[static_cast<std::size_t>(i)];
    ASSERT_TRUE(transfer->outcome.wait().ok());
    ASSERT_EQ(transfer->values.front(), i);
  }
}

TEST_P(MessengerSuite, TakesFromWhicheverRankAndSaysWhich) {
  for (const int ranks : {2, 3, 5}) {
    connect(ranks);
    each_rank([ranks](int rank, Messenger& messenger) {
      constexpr int kEach = 40;
      if (rank > 0) {
        for (int i = 0; i < kEach; ++i) EXPECT_TRUE(send(messenger, 0, rank, counting(50, i)).ok());
        return;
      }
      std::map<int, int> next;
      for (int i = 0; i < kEach * (ranks - 1); ++i) {
        const PendingTransfer transfer = start_receive(messenger, kAnySource, kAnyTag);
        ASSERT_TRUE(transfer->outcome.wait().ok());
        const Envelope& envelope = *transfer->outcome.envelope();
        EXPECT_EQ(envelope.tag, envelope.source);
        EXPECT_EQ(transfer->values, counting(50, next[envelope.source]++));
      }
      EXPECT_EQ(messenger.probe({kAnySource, kAnyTag}), std::nullopt);
    });
  }
}

TEST_P(MessengerSuite, AProbeSeesWhatAReceiveWouldTakeAndLeavesIt) {
  connect(2);
  EXPECT_EQ(at(1).probe({kAnySource, kAnyTag}), std::nullopt);
  const PendingTransfer large = start_send(at(0), 1, 1, counting(50'000, 0));
  const PendingTransfer small = start_send(at(0), 1, 2, {1, 2});
  EXPECT_EQ(receive(at(1), 0, 2), (Numbers{1, 2}));  // so both have come
  for (int i = 0; i < 2; ++i) EXPECT_EQ(at(1).probe({kAnySource, kAnyTag}), numbers(0, 1, 50'000));
  EXPECT_EQ(at(1).probe({1, kAnyTag}), std::nullopt);
  EXPECT_EQ(at(1).probe({0, 2}), std::nullopt);
  EXPECT_EQ(receive(at(1), 0, 1), large->values);
  EXPECT_EQ(at(1).probe({0, kAnyTag}), std::nullopt);
}

TEST_P(MessengerSuite, ReachesItselfBeforeAnybodyReceives) {
  connect(2);
  for (const std::size_t count : {std::size_t{0}, std::size_t{3}, std::size_t{500'000}}) {
    EXPECT_TRUE(send(at(1), 1, 4, counting(count, 1)).ok());
    EXPECT_EQ(at(1).probe({1, 4}), numbers(1, 4, count));
    EXPECT_EQ(at(0).probe({1, 4}), std::nullopt);
    EXPECT_EQ(receive(at(1), kAnySource, 4), counting(count, 1));
    const PendingTransfer transfer = start_receive(at(1), 1, 0);
    EXPECT_TRUE(send(at(1), 1, 0, counting(count, 2)).ok());
    EXPECT_TRUE(transfer->outcome.wait().ok());
    EXPECT_EQ(transfer->values, counting(count, 2));
  }
}

TEST_P(MessengerSuite, LargeOnesCrossEachOther) {
  connect(3);
  each_rank([](int rank, Messenger& messenger) {
    std::vector<PendingTransfer> sent;
    std::vector<PendingTransfer> received;
    for (int peer = 0; peer < 3; ++peer) {
      received.push_back(start_receive(messenger, peer, 0));
      sent.push_back(start_send(messenger, peer, 0, counting(2'000'000, 10 * rank + peer)));
    }
    for (int peer = 0; peer < 3; ++peer) {
      const PendingTransfer& transfer = received[static_cast<std::size_t>(peer)];
      ASSERT_TRUE(transfer->outcome.wait().ok());
      ASSERT_EQ(transfer->values, counting(2'000'000, 10 * peer + rank));
    }
    for (auto& transfer : sent) ASSERT_TRUE(transfer->outcome.wait().ok());
  });
}

TEST_P(MessengerSuite, MoreThanARankKeepsWaitsAtItsSender) {
  connect(2);
  std::vector<PendingTransfer> sent;
  for (int i = 0; i < 20'000; ++i) sent.push_back(start_send(at(0), 1, 1, {}));
  for (int i = 0; i < 2'000; ++i) sent.push_back(start_send(at(0), 1, 0, counting(4'000, i)));
  each_rank([&](int rank, Messenger& messenger) {
    if (rank == 0) {
      for (auto& transfer : sent) ASSERT_TRUE(transfer->outcome.wait().ok());
      EXPECT_TRUE(send(messenger, 1, 2, {5}).ok());
      return;
    }
    for (int i = 0; i < 2'000; ++i) ASSERT_EQ(receive(messenger, 0, 0).front(), i);
    for (int i = 0; i < 20'000; ++i) ASSERT_EQ(receive(messenger, 0, kAnyTag), Numbers{});
    EXPECT_EQ(receive(messenger, 0, 2), Numbers{5});
  });
}

TEST_P(MessengerSuite, WhatWasNotExpectedIsLostAndTheNextOneComes) {
  connect(2);
  for (const bool posted : {false, true}) {
    for (const std::size_t count : {10U, 100'000U}) {
      const auto outcome = std::make_shared<Outcome>();
      const auto refuse = [&] {
        at(1).receive(
            {{0, 0},
             [](const Envelope&) -> void* { throw Error(Code::mismatch, "too large"); },
             [outcome](const Status& status, const Envelope* found) { outcome->set(status, found); }});
      };
      if (posted) refuse();
      const PendingTransfer first = start_send(at(0), 1, 0, counting(count, 0));
      const PendingTransfer second = start_send(at(0), 1, 0, {7});
      if (!posted) refuse();
      EXPECT_EQ(outcome->wait(), (Status{Code::mismatch, "too large"}));
      EXPECT_EQ(outcome->envelope(), numbers(0, 0, count));
      EXPECT_EQ(receive(at(1), 0, 0), Numbers{7});
      EXPECT_TRUE(first->outcome.wait().ok());
      EXPECT_TRUE(second->outcome.wait().ok());
    }
  }
}

TEST_P(MessengerSuite, WhoIsToldMayWriteAgain) {
  connect(2);
  constexpr int kTurns = 200;
  Outcome outcome;
  std::vector<Numbers> in(2, Numbers(1));
  std::vector<Numbers> out(2, Numbers(1));
  // Each rank answers from `done`, with one more, until there have been enough turns.
  std::function<void(int)> expect = [&](int rank) {
    const auto here = static_cast<std::size_t>(rank);
    at(rank).receive({{1 - rank, 0},
                      [&, here](const Envelope&) { return in[here].data(); },
                      [&, rank, here](const Status& status, const Envelope*) {
                        const int turn = in[here].front();
                        if (!status.ok()) return;  // the last one waits in vain
                        if (turn == kTurns) return outcome.set(status, nullptr);
                        expect(rank);
                        out[here].front() = turn + 1;
                        at(rank).send(
                            {1 - rank, numbers(rank, 0, 1), out[here].data(), [](const Status&) {}});
                      }});
  };
  expect(0);
  expect(1);
  const PendingTransfer first = start_send(at(0), 1, 0, {1});
  EXPECT_TRUE(outcome.wait().ok());
  disconnect();
}

TEST_P(MessengerSuite, ThreadsOfARankWriteSideBySide) {
  connect(2);
  constexpr int kThreads = 4;
  constexpr int kMessages = 100;
  each_rank([](int rank, Messenger& messenger) {
    run_ranks(kThreads, [&](int thread) {
      for (int i = 0; i < kMessages; ++i) {
        const PendingTransfer received = start_receive(messenger, 1 - rank, thread);
        const PendingTransfer sent =
            start_send(messenger, 1 - rank, thread, counting(i % 9 == 0 ? 20'000 : 30, i));
        ASSERT_TRUE(received->outcome.wait().ok());
        ASSERT_EQ(received->values, sent->values);
        ASSERT_TRUE(sent->outcome.wait().ok());
      }
    });
  });
}

/// A rank leaves, and the others hear of it when all that it has sent is there.
void leave(Messenger& leaver) {
  std::promise<void> told;
  leaver.leave([&told] { told.set_value(); });
  told.get_future().wait();
}

TEST_P(MessengerSuite, WhatWaitsForARankThatHasLeftEndsAndWhatItHasSentIsReceived) {
  connect(3);
  const Status left{Code::aborted, "rank 1 has left the job (shutdown)"};
  const PendingTransfer in_vain = start_receive(at(0), 1, 9);
  const PendingTransfer from_any = start_receive(at(0), kAnySource, 9);
  const PendingTransfer large = start_send(at(0), 1, 3, counting(kLargestUnasked + 1, 0));
  const PendingTransfer last = start_send(at(1), 0, 5, counting(kLargestUnasked + 1, 7));
  EXPECT_TRUE(send(at(1), 0, 5, {4}).ok());
  leave(at(1));
  EXPECT_THROW(start_send(at(1), 0, 5, {1}), Error);
  at(0).hear_leave(1);
  EXPECT_EQ(in_vain->outcome.wait(), left);
  EXPECT_EQ(large->outcome.wait(), left);
  EXPECT_EQ(receive(at(0), 1, 5), last->values);
  EXPECT_TRUE(last->outcome.wait().ok());
  EXPECT_EQ(at(0).probe({1, 5}), numbers(1, 5, 1));
  EXPECT_EQ(receive(at(0), 1, 5), Numbers{4});
  EXPECT_THROW(static_cast<void>(at(0).probe({1, 5})), Error);
  EXPECT_EQ(start_receive(at(0), 1, 5)->outcome.wait(), left);
  EXPECT_EQ(send(at(0), 1, 5, {1}), left);
  EXPECT_FALSE(from_any->outcome.told()) << "rank 2 may still send";
  leave(at(2));
  at(0).hear_leave(2);
  EXPECT_EQ(from_any->outcome.wait().message, "all other ranks have left the job (shutdown)");
  EXPECT_TRUE(send(at(0), 0, 1, {8}).ok());
  EXPECT_EQ(receive(at(0), 0, 1), Numbers{8}) << "to itself";
}

TEST_P(MessengerSuite, ARankHasLeftOnceSendersKnowWhatItHasRefused) {
  connect(2);
  std::vector<PendingTransfer> sent;
  for (int i = 0; i < 40; ++i) sent.push_back(start_send(at(0), 1, 3, counting(kLargestUnasked + 1, i)));
  for (std::size_t i = 0; i < sent.size(); ++i) {
    Outcome refused;
    at(1).receive({{0, 3},
                   [](const Envelope&) -> void* { throw Error(Code::mismatch, "too large"); },
                   [&refused](const Status& status, const Envelope* it) { refused.set(status, it); }});
    EXPECT_EQ(refused.wait().code, Code::mismatch);
  }
  leave(at(1));
  at(0).hear_leave(1);
  for (const auto& one : sent) EXPECT_TRUE(one->outcome.wait().ok());
}

TEST_P(MessengerSuite, WhatIsUnderWayEndsWithTheReasonOfTheAbort) {
  connect(2);
  const PendingTransfer sent = start_send(at(0), 1, 1, counting(100'000, 0));
  const PendingTransfer received = start_receive(at(0), 1, 1);
  const PendingTransfer any = start_receive(at(0), kAnySource, kAnyTag);
  EXPECT_TRUE(send(at(1), 1, 1, {1}).ok());
  const Status why{Code::aborted, "rank 1 is gone"};
  at(0).abort(why);
  at(0).abort({Code::aborted, "another reason"});
  for (const auto& transfer : {sent, received, any}) EXPECT_EQ(transfer->outcome.wait(), why);
  EXPECT_THROW(start_send(at(0), 1, 0, {1}), Error);
  EXPECT_THROW(start_send(at(0), 0, 0, {1}), Error);
  EXPECT_THROW(start_receive(at(0), 1, 0), Error);
  EXPECT_THROW(static_cast<void>(at(0).probe({1, 0})), Error);
}

TEST_P(MessengerSuite, AnAbortInTheMiddleOfTrafficEndsEachMessageOnce) {
  for (int round = 0; round < 10; ++round) {
    connect(3);
    std::vector<std::vector<PendingTransfer>> transfer(3);
    each_rank([&](int rank, Messenger& messenger) {
      auto& own = transfer[static_cast<std::size_t>(rank)];
      try {
        for (int i = 0; i < 80; ++i) {
          own.push_back(start_receive(messenger, kAnySource, kAnyTag));
          own.push_back(start_send(messenger, (rank + i) % 3, 0, counting(i % 4 == 0 ? 50'000 : 10, i)));
          if (rank == 1 && i == 8 * round) messenger.abort({Code::aborted, "enough"});
        }
      } catch (const Error& error) {
        EXPECT_STREQ(error.what(), "enough");
      }
      if (rank != 1) messenger.abort({Code::aborted, "enough"});
    });
    for (auto& own : transfer) {
      for (auto& one : own) {
        const Status status = one->outcome.wait();
        EXPECT_TRUE(status.ok() || status.message == "enough") << status.message;
      }
    }
  }
}

/// A plan of random messages between all ranks, and what each receive of theirs has to get.
struct Plan {
  struct Step {
    int peer;
    int tag;
    std::size_t count;
    int first;
  };
  std::vector<std::vector<Step>> sends;     // by rank, in order
  std::vector<std::vector<Step>> receives;  // by rank, in order

  Plan(int ranks, unsigned seed) : sends(static_cast<std::size_t>(ranks)), receives(sends) {
    std::mt19937 random(seed);
    const auto below = [&](int bound) { return static_cast<int>(random() % static_cast<unsigned>(bound)); };
    for (int i = 0; i < 400; ++i) {
      const int from = below(ranks);
      const int to = below(ranks);
      const std::size_t count = below(5) == 0 ? 16'000 + random() % 40'000 : random() % 200;
      const Step step{to, below(3), count, i};
      sends[static_cast<std::size_t>(from)].push_back(step);
      receives[static_cast<std::size_t>(to)].push_back({from, step.tag, count, i});
    }
    // Any order will do, as long as messages of one rank and tag stay in theirs.
    for (auto& own : receives) {
      std::vector<Step> mixed = own;
      std::shuffle(mixed.begin(), mixed.end(), random);
      std::map<std::pair<int, int>, std::vector<Step>> queues;
      for (auto step = own.rbegin(); step != own.rend(); ++step)
        queues[{step->peer, step->tag}].push_back(*step);
      for (auto& step : mixed) {
        auto& queue = queues[{step.peer, step.tag}];
        step = queue.back();
        queue.pop_back();
      }
      own = mixed;
    }
  }
};

TEST_P(MessengerSuite, RandomTrafficArrivesAsAModelSays) {
  unsigned seed = 1;
  for (const int ranks : {2, 3, 5}) {
    connect(ranks);
    for (int round = 0; round < 3; ++round) {
      const Plan plan(ranks, seed++);
      each_rank([&](int rank, Messenger& messenger) {
        const auto here = static_cast<std::size_t>(rank);
        std::vector<PendingTransfer> sent;
        std::vector<PendingTransfer> received;
        std::thread other([&] {
          for (const auto& step : plan.sends[here])
            sent.push_back(start_send(messenger, step.peer, step.tag, counting(step.count, step.first)));
        });
        for (const auto& step : plan.receives[here])
          received.push_back(start_receive(messenger, step.peer, step.tag));
        other.join();
        for (std::size_t i = 0; i < received.size(); ++i) {
          const auto& step = plan.receives[here][i];
          ASSERT_TRUE(received[i]->outcome.wait().ok());
          ASSERT_EQ(received[i]->values, counting(step.count, step.first)) << "seed " << seed - 1;
        }
        for (auto& transfer : sent) ASSERT_TRUE(transfer->outcome.wait().ok());
      });
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, MessengerSuite, testing::ValuesIn(messenger_backends()),
                         [](const auto& param) { return param.param.name; });

}  // namespace
}  // namespace hora
