// SPDX-License-Identifier: Apache-2.0
#include "core/backend/tcp/tcp_messenger.h"

#include "test/support/tcp_ranks.h"
#include "test/support/threads.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>
#include <numeric>
#include <random>

namespace hora {
namespace {

/// Ranks of one process that can write to each other.
class Ranks {
 public:
  explicit Ranks(int count) : configs_(loopback_configs(count)), worlds_(connect_tcp_ranks(configs_)) {
    ranks_.resize(configs_.size());
    run_ranks(count, [&](int rank) {
      const auto at = static_cast<std::size_t>(rank);
      ranks_[at] = connect_tcp_messenger(*worlds_[at].control, worlds_[at].members, configs_[at],
                                         Clock::now() + configs_[at].start_timeout);
    });
  }
  ~Ranks() {
    run_ranks(static_cast<int>(worlds_.size()),
              [&](int rank) { worlds_[static_cast<std::size_t>(rank)].control.reset(); });
  }
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;
  Messenger& operator[](int rank) { return *ranks_[static_cast<std::size_t>(rank)]; }
  void end(int rank) { ranks_[static_cast<std::size_t>(rank)].reset(); }

 private:
  std::vector<Config> configs_;
  std::vector<World> worlds_;
  std::vector<std::unique_ptr<Messenger>> ranks_;
};

/// Waits for what `done` is told.
class Outcome {
 public:
  std::function<void(const Status&)> sender() {
    return [this](const Status& status) { set(status, {}); };
  }
  std::function<void(const Status&, const Envelope&)> receiver() {
    return [this](const Status& status, const Envelope& envelope) { set(status, envelope); };
  }
  Status wait() {
    std::unique_lock lock(mutex_);
    told_.wait(lock, [this] { return status_.has_value(); });
    return *status_;
  }
  [[nodiscard]] const Envelope& envelope() const { return envelope_; }

 private:
  void set(const Status& status, const Envelope& envelope) {
    const std::lock_guard lock(mutex_);
    EXPECT_FALSE(status_) << "told twice";
    status_ = status;
    envelope_ = envelope;
    told_.notify_all();
  }
  std::mutex mutex_;
  std::condition_variable told_;
  std::optional<Status> status_;
  Envelope envelope_;
};

Envelope numbers(int from, int tag, std::size_t count) {
  return {from, tag, DType::int32, {static_cast<std::int64_t>(count)}};
}

Status send(Ranks& ranks, int from, int to, int tag, const std::vector<std::int32_t>& values) {
  Outcome outcome;
  ranks[from].send({to, numbers(from, tag, values.size()), values.data(), outcome.sender()});
  return outcome.wait();
}

std::vector<std::int32_t> receive(Ranks& ranks, int at, int from, int tag, Envelope* envelope = nullptr) {
  std::vector<std::int32_t> values;
  Outcome outcome;
  ranks[at].receive({from, tag,
                     [&](const Envelope& sent) {
                       values.resize(static_cast<std::size_t>(sent.shape.front()));
                       return values.data();
                     },
                     outcome.receiver()});
  const Status status = outcome.wait();
  if (!status.ok()) throw Error(status);
  if (envelope != nullptr) *envelope = outcome.envelope();
  return values;
}

std::vector<std::int32_t> sequence(std::size_t count, int first) {
  std::vector<std::int32_t> values(count);
  std::iota(values.begin(), values.end(), first);
  return values;
}

TEST(TcpMessenger, BringsMessagesOfEverySizeInBothOrders) {
  Ranks ranks(2);
  for (const std::size_t count : {0U, 1U, 1000U, 16384U, 16385U, 3'000'000U}) {
    const auto values = sequence(count, static_cast<int>(count));
    run_ranks(2, [&](int rank) {
      if (rank == 0) {
        EXPECT_TRUE(send(ranks, 0, 1, 5, values).ok());
      } else {
        Envelope envelope;
        EXPECT_EQ(receive(ranks, 1, 0, 5, &envelope), values);
        EXPECT_EQ(envelope, numbers(0, 5, count));
      }
    });
  }
  const auto small = sequence(10, 3);
  EXPECT_TRUE(send(ranks, 1, 0, 1, small).ok()) << "small ones are sent before anybody asks";
  EXPECT_EQ(receive(ranks, 0, kAnySource, kAnyTag), small);
}

TEST(TcpMessenger, KeepsTheOrderOfOneSenderAndChoosesByTag) {
  Ranks ranks(2);
  run_ranks(2, [&](int rank) {
    constexpr int kMessages = 300;
    if (rank == 0) {
      std::vector<std::unique_ptr<Outcome>> outcomes;
      std::vector<std::vector<std::int32_t>> data;
      data.reserve(kMessages);
      for (int i = 0; i < kMessages; ++i) {
        data.push_back(sequence(i % 7 == 0 ? 40'000 : 100, i));  // large and small ones in turns
        outcomes.push_back(std::make_unique<Outcome>());
        ranks[0].send(
            {1, numbers(0, i % 2, data.back().size()), data.back().data(), outcomes.back()->sender()});
      }
      for (auto& outcome : outcomes) EXPECT_TRUE(outcome->wait().ok());
    } else {
      for (const int tag : {1, 0}) {
        for (int i = tag; i < kMessages; i += 2) ASSERT_EQ(receive(ranks, 1, 0, tag).front(), i);
      }
    }
  });
}

TEST(TcpMessenger, ReachesItself) {
  Ranks ranks(2);
  EXPECT_TRUE(send(ranks, 0, 0, 4, {1, 2, 3}).ok());
  EXPECT_EQ(ranks[0].probe(0, 4), numbers(0, 4, 3));
  EXPECT_EQ(receive(ranks, 0, 0, 4), (std::vector<std::int32_t>{1, 2, 3}));
  EXPECT_EQ(ranks[0].probe(kAnySource, kAnyTag), std::nullopt);
}

TEST(TcpMessenger, RanksThatAllWriteToEachOtherAreNeverInEachOthersWay) {
  constexpr int kRanks = 4;
  Ranks ranks(kRanks);
  run_ranks(kRanks, [&](int rank) {
    std::mt19937 random(static_cast<unsigned>(rank));
    std::vector<std::vector<std::int32_t>> data;
    std::vector<std::unique_ptr<Outcome>> outcomes;
    constexpr int kRounds = 20;
    data.reserve(kRanks * kRounds);
    for (int round = 0; round < kRounds; ++round) {
      for (int peer = 0; peer < kRanks; ++peer) {
        data.push_back(sequence(1 + random() % 60'000, rank));
        outcomes.push_back(std::make_unique<Outcome>());
        ranks[rank].send(
            {peer, numbers(rank, round, data.back().size()), data.back().data(), outcomes.back()->sender()});
      }
    }
    for (int round = kRounds - 1; round >= 0; --round) {
      for (int peer = 0; peer < kRanks; ++peer) ASSERT_EQ(receive(ranks, rank, peer, round).front(), peer);
    }
    for (auto& outcome : outcomes) EXPECT_TRUE(outcome->wait().ok());
  });
}

TEST(TcpMessenger, AMessageThatIsNotWhatWasExpectedIsLostAndTheNextOneComes) {
  Ranks ranks(2);
  for (const std::size_t count : {10U, 100'000U}) {
    const auto values = sequence(count, 0);
    run_ranks(2, [&](int rank) {
      if (rank == 0) {
        EXPECT_TRUE(send(ranks, 0, 1, 0, values).ok());
        EXPECT_TRUE(send(ranks, 0, 1, 0, {7}).ok());
        return;
      }
      Outcome outcome;
      ranks[1].receive({0, 0, [](const Envelope&) -> void* { throw Error(Code::mismatch, "too large"); },
                        outcome.receiver()});
      EXPECT_EQ(outcome.wait().message, "too large");
      EXPECT_EQ(receive(ranks, 1, 0, 0), std::vector<std::int32_t>{7});
    });
  }
}

TEST(TcpMessenger, WhatIsUnderWayEndsWithTheReasonOfTheAbort) {
  Ranks ranks(2);
  const auto values = sequence(100'000, 0);
  Outcome sent;
  Outcome received;
  ranks[0].send({1, numbers(0, 1, values.size()), values.data(), sent.sender()});
  ranks[0].receive({1, 1, [](const Envelope&) -> void* { return nullptr; }, received.receiver()});
  ranks[0].abort({Code::aborted, "rank 1 is gone"});
  EXPECT_EQ(sent.wait().message, "rank 1 is gone");
  EXPECT_EQ(received.wait().message, "rank 1 is gone");
  EXPECT_THROW(send(ranks, 0, 1, 0, {1}), Error);
}

TEST(TcpMessenger, ARankThatLeavesIsNamed) {
  Ranks ranks(2);
  EXPECT_TRUE(send(ranks, 1, 0, 0, {1}).ok());
  EXPECT_EQ(receive(ranks, 0, 1, 0), std::vector<std::int32_t>{1});
  ranks.end(1);
  try {
    receive(ranks, 0, 1, 0);
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "rank 1 has left the job");
  }
}

}  // namespace
}  // namespace hora
