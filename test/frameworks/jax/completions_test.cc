// SPDX-License-Identifier: Apache-2.0
#include "frameworks/jax/completions.h"

#include "test/support/threads.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <memory>

namespace hora::jax {
namespace {

using namespace std::chrono_literals;

constexpr std::int64_t kShape[1] = {3};
using Values = std::array<float, 3>;

/// A message that this process sends to itself, and receives later.
hora_handle* receive(int tag, Values& to) {
  hora_handle* handle = nullptr;
  EXPECT_EQ(hora_receive(0, tag, 0, to.data(), kShape, 1, HORA_FLOAT32, &handle), HORA_OK);
  return handle;
}

void send(int tag, hora_dtype dtype = HORA_FLOAT32) {
  static constexpr double kValues[3] = {1, 2, 3};
  hora_handle* handle = nullptr;
  ASSERT_EQ(hora_send(0, tag, 0, kValues, kShape, 1, dtype, &handle), HORA_OK);
  hora_release(handle);
}

hora_handle* allreduce(const std::string& name, Values& data) {
  hora_entry entry{};
  entry.name = name.c_str();
  entry.input = entry.output = data.data();
  entry.shape = kShape;
  entry.dimensions = 1;
  entry.dtype = HORA_FLOAT32;
  entry.op = HORA_SUM;
  entry.prescale = 2;
  hora_handle* handle = nullptr;
  EXPECT_EQ(hora_submit(&entry, 1, &handle), HORA_OK) << hora_last_error();
  return handle;
}

/// The outcome of a group. A second one would end the program.
class Told {
 public:
  std::function<void(const Outcome&)> done() {
    return [promise = promise_](const Outcome& outcome) { promise->set_value(outcome); };
  }
  bool within(std::chrono::milliseconds time) { return outcome_.wait_for(time) == std::future_status::ready; }
  Outcome outcome() {
    EXPECT_TRUE(within(20s));
    return outcome_.get();
  }

 private:
  std::shared_ptr<std::promise<Outcome>> promise_ = std::make_shared<std::promise<Outcome>>();
  std::future<Outcome> outcome_ = promise_->get_future();
};

/// In a job of one rank.
class CompletionsTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(hora_init(), HORA_OK) << hora_last_error(); }
  void TearDown() override { EXPECT_EQ(hora_shutdown(nullptr), HORA_OK) << hora_last_error(); }

  Completions& completions_ = Completions::of_process();
};

TEST_F(CompletionsTest, TellOnceWhenAllOperationsOfAGroupHaveEnded) {
  std::array<Values, 3> output{};
  Told told;
  completions_.watch({receive(0, output[0]), receive(1, output[1]), receive(2, output[2])}, told.done());
  send(2);
  send(0);
  EXPECT_FALSE(told.within(20ms)) << "one has not ended";
  EXPECT_EQ(completions_.waiting(), 1U);
  send(1);
  const Outcome outcome = told.outcome();
  EXPECT_EQ(outcome.code, HORA_OK);
  EXPECT_EQ(outcome.message, "");
  EXPECT_EQ(completions_.waiting(), 0U);
}

TEST_F(CompletionsTest, TellOfOperationsThatHadEndedBefore) {
  Values x{1, 2, 3};
  Values y{4, 5, 6};
  const std::vector<hora_handle*> handles{allreduce("x", x), allreduce("y", y)};
  for (hora_handle* handle : handles) ASSERT_EQ(hora_wait(handle), HORA_OK);
  Told told;
  completions_.watch(handles, told.done());
  EXPECT_EQ(told.outcome().code, HORA_OK);
  EXPECT_EQ(x, (Values{2, 4, 6}));
  EXPECT_EQ(y, (Values{8, 10, 12}));
}

TEST_F(CompletionsTest, TellTheFirstErrorOfAGroup) {
  std::array<Values, 3> output{};
  Told told;
  completions_.watch({receive(0, output[0]), receive(1, output[1]), receive(2, output[2])}, told.done());
  send(2, HORA_INT64);
  send(1, HORA_FLOAT64);
  send(0);
  const Outcome outcome = told.outcome();
  EXPECT_EQ(outcome.code, HORA_MISMATCH);
  EXPECT_NE(outcome.message.find("float64"), std::string::npos) << outcome.message;
}

TEST_F(CompletionsTest, FinishTakesTheFirstErrorToo) {
  std::array<Values, 2> output{};
  const std::vector<hora_handle*> handles{receive(0, output[0]), receive(1, output[1])};
  send(1, HORA_FLOAT64);
  send(0);
  const Outcome outcome = finish(handles);
  EXPECT_EQ(outcome.code, HORA_MISMATCH);
  EXPECT_NE(outcome.message.find("float64"), std::string::npos) << outcome.message;
  EXPECT_EQ(finish({}).code, HORA_OK);
}

TEST_F(CompletionsTest, TellOfManyGroupsOfSeveralThreads) {
  constexpr int kThreads = 4;
  constexpr int kGroups = 40;
  std::array<std::array<std::array<Values, 3>, kGroups>, kThreads> data{};
  std::vector<Told> told(std::size_t{kThreads} * kGroups);
  run_ranks(kThreads, [&](int thread) {
    for (int group = 0; group < kGroups; ++group) {
      auto& values = data.at(static_cast<std::size_t>(thread)).at(static_cast<std::size_t>(group));
      const int number = thread * kGroups + group;
      std::vector<hora_handle*> handles;
      for (std::size_t i = 0; i < 2; ++i) {
        values[i] = {1, 2, 3};
        handles.push_back(allreduce(std::to_string(number) + "." + std::to_string(i), values[i]));
      }
      handles.push_back(receive(number, values[2]));
      completions_.watch(handles, told[static_cast<std::size_t>(number)].done());
      send(number);
    }
  });
  for (auto& group : told) EXPECT_EQ(group.outcome().code, HORA_OK);
  for (const auto& thread : data)
    for (const auto& group : thread) EXPECT_EQ(group[1], (Values{2, 4, 6}));
  EXPECT_EQ(completions_.waiting(), 0U);
}

TEST_F(CompletionsTest, ThatAreToldOfMayWatchTheNext) {
  constexpr int kTurns = 30;
  Values x{1, 1, 1};
  Told told;
  std::function<void(const Outcome&)> next;
  int turn = 0;  // of one thread after the other
  next = [&](const Outcome& outcome) {
    EXPECT_EQ(outcome.code, HORA_OK);
    if (++turn == kTurns) return told.done()(outcome);
    completions_.watch({turn % 2 == 0 ? allreduce("x", x) : receive(turn, x)}, next);
    if (turn % 2 == 1) send(turn);
  };
  completions_.watch({allreduce("x", x)}, next);
  EXPECT_EQ(told.outcome().code, HORA_OK);
  EXPECT_EQ(turn, kTurns);
}

TEST_F(CompletionsTest, ThatAreToldOfMayWaitForTheNext) {
  constexpr int kDepth = 6;  // each waits within the one before, so each needs a thread
  std::array<Values, kDepth + 1> output{};
  Told told;
  std::function<void(int)> begin;
  begin = [&](int depth) {
    if (depth == kDepth) return;
    Told inner;
    completions_.watch({receive(depth, output[static_cast<std::size_t>(depth)])},
                       [&, done = inner.done()](const Outcome& outcome) {
                         begin(depth + 1);
                         done(outcome);
                       });
    send(depth);
    EXPECT_EQ(inner.outcome().code, HORA_OK) << depth;
  };
  completions_.watch({allreduce("x", output[kDepth])}, [&, done = told.done()](const Outcome& outcome) {
    begin(0);
    done(outcome);
  });
  EXPECT_EQ(told.outcome().code, HORA_OK);
}

TEST_F(CompletionsTest, TellOfOperationsThatEndWithTheJob) {
  Values x{};
  Told told;
  completions_.watch({receive(0, x)}, told.done());
  EXPECT_EQ(hora_shutdown("enough"), HORA_OK) << hora_last_error();
  const Outcome outcome = told.outcome();
  EXPECT_EQ(outcome.code, HORA_ABORTED);
  EXPECT_NE(outcome.message.find("enough"), std::string::npos) << outcome.message;
}

TEST(CompletionsOfAProcess, LetItEndWhileOperationsAreUnderWay) {
  const auto end_within_an_operation = [] {
    static Values x{};
    if (hora_init() != HORA_OK) std::exit(1);
    Completions::of_process().watch({receive(0, x)}, [](const Outcome&) {});
    std::fputs("under way", stderr);
    std::exit(0);
  };
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // in a process of its own, which has a thread for them
  EXPECT_EXIT(end_within_an_operation(), testing::ExitedWithCode(0), "under way");
}

}  // namespace
}  // namespace hora::jax
