// SPDX-License-Identifier: Apache-2.0
#include "core/negotiate/schedule.h"

#include <gtest/gtest.h>

namespace hora {
namespace {

Decision decision(const std::string& name, std::int64_t rows = 1) {
  Decision decision;
  decision.request.name = name;
  decision.request.shape = {rows};
  return decision;
}

TEST(Schedule, CallsADecisionByTheNumberItGave) {
  Schedule schedule;
  const auto id = schedule.learn(decision("w")).id;
  ASSERT_NE(schedule.find("w"), nullptr);
  EXPECT_EQ(*schedule.find("w"), id);
  ASSERT_NE(schedule.use(id), nullptr);
  EXPECT_EQ(*schedule.use(id), decision("w"));
  EXPECT_EQ(schedule.find("v"), nullptr);
  EXPECT_EQ(schedule.use(id + 1), nullptr);
}

TEST(Schedule, ForgetsANamesFormerDecision) {
  Schedule schedule;
  const auto former = schedule.learn(decision("w", 1)).id;
  const auto learned = schedule.learn(decision("w", 2));
  EXPECT_EQ(learned.forgotten, former);
  EXPECT_FALSE(schedule.knows(former));
  EXPECT_EQ(*schedule.find("w"), learned.id);
}

TEST(Schedule, ForgetsTheOneNotUsedForLongestWhenFull) {
  Schedule schedule(2);
  const auto a = schedule.learn(decision("a")).id;
  const auto b = schedule.learn(decision("b")).id;
  schedule.use(a);
  EXPECT_EQ(schedule.learn(decision("c")).forgotten, b);
  EXPECT_TRUE(schedule.knows(a));
  EXPECT_EQ(schedule.find("b"), nullptr);
}

TEST(Schedule, KeepsOnlyWhatAllMembersAskFor) {
  EXPECT_TRUE(Schedule::keeps(decision("w")));
  Decision joined = decision("w");
  joined.joined = {1};
  EXPECT_FALSE(Schedule::keeps(joined));
  Decision failed = decision("w");
  failed.status.code = Code::mismatch;
  EXPECT_FALSE(Schedule::keeps(failed));
}

TEST(Schedule, KeepsWhatIsRepeatedInSteps) {
  for (int i = 0; i < kOperations; ++i) {
    Decision each = decision("w");
    each.request.operation = static_cast<Operation>(i);
    const bool of_members = each.request.operation == Operation::join ||
                            each.request.operation == Operation::add_process_set ||
                            each.request.operation == Operation::remove_process_set;
    EXPECT_EQ(Schedule::keeps(each), !of_members) << name(each.request.operation);
  }
}

TEST(Schedule, UsesTheDecisionOfAnOrdinalForTheNext) {
  Schedule schedule;
  const auto id = schedule.learn(decision("sum.noname.7")).id;
  EXPECT_EQ(schedule.find("sum.noname.7"), nullptr);
  for (int number = 8; number < 12; ++number) {
    const std::string name = "sum.noname." + std::to_string(number);
    ASSERT_NE(schedule.find(name), nullptr);
    EXPECT_EQ(schedule.name_in(id), name);
    EXPECT_EQ(*schedule.use(*schedule.find(name)), decision(name));
  }
  const auto other = schedule.learn(decision("sum.noname.12", 5));
  EXPECT_EQ(other.forgotten, id);
  EXPECT_EQ(*schedule.find("sum.noname.13"), other.id);
}

TEST(Schedule, OrdinalsNeedNotBeDecidedInTheirOrder) {
  Schedule schedule;
  const auto first = schedule.learn(decision("sum.noname.1")).id;
  const auto third = schedule.learn(decision("sum.noname.3")).id;
  schedule.use(first);  // the second
  schedule.use(first);  // another third: now both would be the fourth
  EXPECT_EQ(*schedule.find("sum.noname.4"), first);
  const auto fourth = schedule.learn(decision("sum.noname.4", 5));
  EXPECT_EQ(fourth.forgotten, first);
  EXPECT_TRUE(schedule.knows(third));
  EXPECT_EQ(schedule.find("sum.noname.4"), nullptr);
}

TEST(Schedule, NeverGivesANumberTwice) {
  Schedule schedule(1);
  const auto a = schedule.learn(decision("a")).id;
  schedule.learn(decision("b"));
  EXPECT_NE(schedule.learn(decision("a")).id, a);
}

}  // namespace
}  // namespace hora
