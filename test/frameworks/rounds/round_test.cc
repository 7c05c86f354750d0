// SPDX-License-Identifier: Apache-2.0
#include "frameworks/rounds/round.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>

namespace hora::rounds {
namespace {

using ::testing::ElementsAre;
using Kind = Action::Kind;

/// Some optimizers of two parameters each, and an adapter that notes what it is told to do.
struct Optimizers {
  explicit Optimizers(const std::vector<std::string>& labels, int kind = kDense) {
    for (const auto& label : labels) {
      ReducerState& state = states.emplace_back(label);
      for (const char* name : {"a", "b"}) state.add_parameter(name, state.units().add_unit(), kind);
      pointers.push_back(&state);
    }
  }

  void carry_out(const Action& action, Round& round) {
    ReducerState& state = states[action.reducer];
    if (action.kind == Kind::submit) {
      for (const auto& unit : action.units) {
        if (unit == refused && state.failed_with().empty()) {
          round.failed("it cannot be sent", false);
          continue;
        }
        for (const int each : unit) static_cast<void>(state.bring(each, true, true));
        state.submitted(unit);
      }
    } else if (action.kind == Kind::ask) {
      state.units().asked(action.parameters);
    } else if (action.kind == Kind::look) {
      if (answered.at(action.reducer)) round.answered();
    } else if (action.kind == Kind::pause) {
      answered.back() = true;
    } else if (action.kind == Kind::learn) {
      state.units().learn({kDense, 1}, true);
    } else if (action.kind == Kind::settle) {
      for (const int each : action.parameters) static_cast<void>(state.settled(each, true, true));
      if (action.reducer == failing) round.failed("rank 1 failed", true);
    }
  }

  std::vector<std::pair<Kind, std::size_t>> make() {
    std::vector<std::pair<Kind, std::size_t>> done;
    Round round(pointers);
    while (const auto action = round.next()) {
      done.emplace_back(action->kind, action->reducer);
      carry_out(*action, round);
    }
    return done;
  }

  std::deque<ReducerState> states;
  std::vector<ReducerState*> pointers;
  std::vector<bool> answered = {false, false};
  std::vector<int> refused;
  std::size_t failing = 9;
};

std::pair<Kind, std::size_t> of(Kind kind, std::size_t reducer) { return {kind, reducer}; }

TEST(Round, SubmitsEverythingOfAllInTheOrderOfTheirLabelsBeforeItWaitsForAny) {
  Optimizers two({"y", "x"});
  EXPECT_THAT(two.make(), ElementsAre(of(Kind::adopt, 1), of(Kind::submit, 1), of(Kind::adopt, 0),
                                      of(Kind::submit, 0), of(Kind::settle, 1), of(Kind::settle, 0)));
  EXPECT_EQ(two.states[0].rounds(), 1);
  EXPECT_FALSE(two.states[0].owes_round());
}

TEST(Round, WaitsForTheKindsThatAreKnownFirst) {
  Optimizers two({"x", "y"}, kUnknown);
  EXPECT_THAT(two.make(),
              ElementsAre(of(Kind::adopt, 0), of(Kind::ask, 0), of(Kind::adopt, 1), of(Kind::ask, 1),
                          of(Kind::look, 0), of(Kind::look, 1), of(Kind::pause, 0), of(Kind::look, 0),
                          of(Kind::look, 1), of(Kind::learn, 1), of(Kind::submit, 1), of(Kind::learn, 0),
                          of(Kind::submit, 0), of(Kind::settle, 0), of(Kind::settle, 1)));
}

TEST(Round, SubmitsTheReasonForWhatCannotBeSubmitted) {
  Optimizers one({"x"});
  one.refused = {0};
  EXPECT_THAT(one.make(),
              ElementsAre(of(Kind::adopt, 0), of(Kind::submit, 0), of(Kind::submit, 0), of(Kind::settle, 0)));
  EXPECT_EQ(one.states[0].failed_with(), "") << "the round has ended";
}

TEST(Round, GivesUpOnAReasonThatCannotBeSubmittedEither) {
  ReducerState state("x");
  state.add_parameter("a", state.units().add_unit(), kDense);
  Round round({&state});
  std::vector<Kind> kinds;
  while (const auto action = round.next()) {
    kinds.push_back(action->kind);
    round.failed("the job has ended", false);
  }
  EXPECT_THAT(kinds, ElementsAre(Kind::adopt, Kind::submit, Kind::submit));
}

TEST(Round, ClearsTheGradientsOfARoundInWhichARankHadNone) {
  Optimizers two({"x", "y"});
  two.failing = 1;
  const auto done = two.make();
  EXPECT_EQ(done.back(), of(Kind::spoil, 1));
  EXPECT_EQ(two.states[1].spoiled(), "rank 1 failed");
  EXPECT_EQ(two.states[0].spoiled(), "");
}

TEST(Round, MakesTheRestOfOneThatWasInterrupted) {
  for (int end = 1; end < 5; ++end) {
    Optimizers one({"x"}, kUnknown);
    {
      Round round(one.pointers);
      for (int i = 0; i < end; ++i) {
        const auto action = round.next();
        ASSERT_TRUE(action.has_value());
        if (i + 1 < end) one.carry_out(*action, round);  // else Ctrl-C
      }
    }
    EXPECT_TRUE(one.states[0].owes_round());
    const auto rest = one.make();
    EXPECT_EQ(rest.front(), of(Kind::adopt, 0));
    EXPECT_EQ(rest.size(), static_cast<std::size_t>(end == 1 ? 5 : 7 - end)) << end;
    EXPECT_EQ(one.states[0].rounds(), 1);
    EXPECT_FALSE(one.states[0].owes_round());
  }
}

}  // namespace
}  // namespace hora::rounds
