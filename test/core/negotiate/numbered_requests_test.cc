// SPDX-License-Identifier: Apache-2.0
#include "core/negotiate/numbered_requests.h"

#include "test/core/negotiate/tensor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hora {
namespace {

using testing::ElementsAre;

/// The requests of two members, places 0 and 1, and what became of them.
class TwoMembers : public testing::Test {
 protected:
  void learn(const Request& first, const Request& second) {
    Decision decision;
    decision.request = first;
    numbered_.learn(decision, {{RankSet(0), std::make_shared<Request>(first)},
                               {RankSet(1), std::make_shared<Request>(second)}});
    numbered_.count_verdict();
  }
  std::vector<DecisionId> dropped() {
    std::vector<DecisionId> ids;
    numbered_.drop_forgotten([&](DecisionId id) {
      EXPECT_NE(numbered_.name_of(id), nullptr) << "it is dropped only then";
      ids.push_back(id);
    });
    return ids;
  }

  NumberedRequests numbered_{RankSet(0, 2), 1};
};

TEST_F(TwoMembers, ANumberMeansWhatEachMemberAskedFor) {
  learn(tensor("g", 3), tensor("g", 5));
  EXPECT_EQ(*numbered_.name_of(1), "g");
  EXPECT_EQ(numbered_.name_of(2), nullptr);
  const auto voices = numbered_.voices({{RankSet(1), 1, nullptr}, {RankSet(0), 1, nullptr}});
  ASSERT_EQ(voices.size(), 2u);
  EXPECT_EQ(voices[0].places, RankSet(0));
  EXPECT_EQ(*voices[0].request, tensor("g", 3));
  EXPECT_EQ(*voices[1].request, tensor("g", 5));
  EXPECT_EQ(numbered_.any_request(Asking{RankSet(1), 1, nullptr}), tensor("g", 5));
  EXPECT_EQ(numbered_.any_request(DecisionId{1}), tensor("g", 3));
}

TEST_F(TwoMembers, EqualRequestsAreOneVoice) {
  learn(tensor("w"), tensor("w"));
  const auto voices = numbered_.voices({{RankSet(0, 2), 1, nullptr}});
  ASSERT_EQ(voices.size(), 1u);
  EXPECT_EQ(voices[0].places, RankSet(0, 2));
}

TEST_F(TwoMembers, ARepeatCountsAndNamesTheNextOrdinal) {
  learn(tensor("sum.noname.1"), tensor("sum.noname.1"));
  EXPECT_EQ(*numbered_.name_of(1), "sum.noname.2");
  EXPECT_EQ(numbered_.step_of({{RankSet(0), 0, std::make_shared<Request>(tensor("x"))}}), 0u);
  EXPECT_EQ(numbered_.step_of({{RankSet(0), 1, nullptr}}), 2u);
  EXPECT_EQ(numbered_.repeat(1), 2u);
  EXPECT_EQ(*numbered_.name_of(1), "sum.noname.3");
  EXPECT_EQ(numbered_.step_of({{RankSet(0), 1, nullptr}}), 3u);
}

TEST_F(TwoMembers, AForgottenNumberIsUnderstoodUntilAllHaveHeardIt) {
  learn(tensor("a", 3), tensor("a", 5));
  learn(tensor("b"), tensor("b"));  // the second verdict forgets a
  EXPECT_FALSE(numbered_.knows(1));
  EXPECT_TRUE(numbered_.knows(2));
  numbered_.note_heard(RankSet(0), 2);
  EXPECT_TRUE(dropped().empty());
  const auto spelled = numbered_.spell_out({{RankSet(0), 2, nullptr}, {RankSet(1), 1, nullptr}}, 1);
  ASSERT_EQ(spelled.size(), 2u);
  EXPECT_EQ(spelled[0].repeat, 2u);
  EXPECT_EQ(*spelled[1].request, tensor("a", 5));
  numbered_.note_heard(RankSet(1), 2);
  EXPECT_THAT(dropped(), ElementsAre(1));
  EXPECT_EQ(numbered_.name_of(1), nullptr);
  EXPECT_TRUE(dropped().empty());
}

TEST_F(TwoMembers, AMemberThatHasHeardMoreHasNotHeardLessAfterwards) {
  numbered_.note_heard(RankSet(0, 2), 2);
  numbered_.note_heard(RankSet(0, 2), 1);
  learn(tensor("a"), tensor("a"));
  learn(tensor("b"), tensor("b"));
  EXPECT_THAT(dropped(), ElementsAre(1));
}

}  // namespace
}  // namespace hora
