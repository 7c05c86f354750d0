// SPDX-License-Identifier: Apache-2.0
#include "core/negotiate/lock_policy.h"

#include "test/core/negotiate/tensor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hora {
namespace {

using testing::ElementsAre;

/// One member, whose decisions 1 and 2 are known.
class LockPolicies : public testing::Test {
 protected:
  LockPolicies() {
    for (const char* name : {"a", "b"}) {
      Decision decision;
      decision.request = tensor(name);
      numbered_.learn(decision, {{RankSet(0), std::make_shared<Request>(decision.request)}});
    }
  }

  bool decide(LockPolicy& policy, const std::vector<DecisionId>& ids) {
    verdict_ = {};
    verdict_.trace = trace_;
    for (const auto id : ids) verdict_.items.push_back({id, {}});
    numbered_.count_verdict();
    return policy.lock(verdict_, pending_, numbered_, absences_);
  }
  /// Makes equal steps. Returns whether an order was locked in one of them.
  bool locks_equal_steps(LockPolicy policy) {
    for (int step = 0; step < 10; ++step) {
      if (decide(policy, {1, 2})) return true;
      EXPECT_TRUE(verdict_.lock.empty());
    }
    return false;
  }

  PendingTensors pending_;
  NumberedRequests numbered_{RankSet(0), 8};
  Absences absences_{RankSet(0)};
  TraceCommand trace_ = TraceCommand::none;
  Verdict verdict_;
};

TEST_F(LockPolicies, LocksTheOrderOfEqualSteps) {
  EXPECT_FALSE(locks_equal_steps(LockPolicy(false)));
  ASSERT_TRUE(locks_equal_steps(LockPolicy(true)));
  EXPECT_THAT(verdict_.lock, ElementsAre(1, 2));
}

TEST_F(LockPolicies, BallotsFromBeforeTheLockAreTooLate) {
  LockPolicy policy(true);
  EXPECT_FALSE(policy.is_too_late(0));
  while (!decide(policy, {1, 2})) {
  }
  EXPECT_TRUE(policy.is_too_late(numbered_.verdicts() - 1));
  EXPECT_FALSE(policy.is_too_late(numbered_.verdicts()));
}

TEST_F(LockPolicies, DoesNotLockWhileAMemberIsAbsent) {
  absences_.leave(RankSet(0));
  EXPECT_FALSE(locks_equal_steps(LockPolicy(true)));
}

TEST_F(LockPolicies, DoesNotLockWithACommandAboutTheTimeline) {
  trace_ = TraceCommand::start;
  EXPECT_FALSE(locks_equal_steps(LockPolicy(true)));
}

TEST_F(LockPolicies, DoesNotLockWhileATensorOfNoStepIsPending) {
  const auto entry = pending_.find_or_add("a", {}).entry;
  add_asking(entry->second.askings, RankSet(0), 1);
  EXPECT_TRUE(locks_equal_steps(LockPolicy(true)));
  add_asking(pending_.find_or_add("x", {}).entry->second.askings, RankSet(0), tensor("x"));
  EXPECT_FALSE(locks_equal_steps(LockPolicy(true)));
}

TEST_F(LockPolicies, DoesNotLockWhatIsForgotten) {
  numbered_ = NumberedRequests(RankSet(0), 8);
  EXPECT_FALSE(locks_equal_steps(LockPolicy(true)));
}

TEST_F(LockPolicies, ADisturbanceBeginsAnew) {
  LockPolicy policy(true);
  for (int step = 0; step < 10; ++step) {
    EXPECT_FALSE(decide(policy, {1, 2}));
    policy.disturb();
  }
}

}  // namespace
}  // namespace hora
