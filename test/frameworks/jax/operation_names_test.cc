// SPDX-License-Identifier: Apache-2.0
#include "frameworks/jax/operation_names.h"

#include "test/support/threads.h"

#include <gtest/gtest.h>

#include <mutex>
#include <set>

namespace hora::jax {
namespace {

TEST(OperationNames, NumbersTheCallsOfAProgramThatHaveOneName) {
  OperationNames names;
  EXPECT_EQ(names.make("step#1", "allreduce.w"), "allreduce.w");
  EXPECT_EQ(names.make("step#1", "allreduce.b"), "allreduce.b");
  EXPECT_EQ(names.make("step#1", "allreduce.w"), "allreduce.w#2");
  EXPECT_EQ(names.make("step#1", "allreduce.w"), "allreduce.w#3");
  EXPECT_EQ(names.make("step#1", "allreduce.b"), "allreduce.b#2");
}

TEST(OperationNames, BeginsAnewInEachProgram) {
  OperationNames names;
  EXPECT_EQ(names.make("step#1", "x"), "x");
  EXPECT_EQ(names.make("step#1", "x"), "x#2");
  EXPECT_EQ(names.make("step#2", "x"), "x");
  EXPECT_EQ(names.make("step#1", "x"), "x#3");
  EXPECT_EQ(names.make("", "step#2"), "step#2") << "a program is not a part of the name";
}

TEST(OperationNames, GivesEachOfSeveralThreadsAnother) {
  constexpr int kThreads = 4;
  constexpr int kEach = 500;
  OperationNames names;
  std::mutex mutex;
  std::set<std::string> given;
  run_ranks(kThreads, [&](int /*thread*/) {
    for (int i = 0; i < kEach; ++i) {
      const std::string name = names.make("step#1", "x");
      const std::lock_guard lock(mutex);
      EXPECT_TRUE(given.insert(name).second) << name;
    }
  });
  EXPECT_EQ(given.size(), std::size_t{kThreads * kEach});
  EXPECT_TRUE(given.contains("x"));
  EXPECT_TRUE(given.contains("x#" + std::to_string(kThreads * kEach)));
}

}  // namespace
}  // namespace hora::jax
