// SPDX-License-Identifier: Apache-2.0
#include "runner/launch/local_rank.h"

#include "test/runner/own_process.h"

#include <gmock/gmock.h>
#include <sys/wait.h>

#include <array>

namespace hora::hrun {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string all_of(OutputSource& source) {
  std::string text;
  std::array<char, 4096> buffer{};
  while (!source.ended()) text.append(buffer.data(), source.read(buffer));
  return text;
}

TEST(LocalRank, KnowsWhetherTheJobRunsAlreadyAndThenHasNoInput) {
  for (const bool late : {false, true}) {
    EXPECT_TRUE(in_own_process([late] {
      HostPlan plan;
      plan.command = {"/bin/sh", "-c", "env; cat"};
      plan.environment = {"PATH=/usr/bin:/bin"};
      plan.placements = place({{"here", 1}}, 1, false).front().placements;
      plan.elastic = true;
      plan.input = InputKind::piped;
      Guard guard;
      RankInputs inputs;
      LocalRank rank(
          {.plan = plan, .placement = plan.placements.front(), .rendezvous = {}, .member = 7, .late = late},
          guard, inputs);
      EXPECT_EQ(inputs.room() > 0, !late);
      if (!late) {
        inputs.give("typed\n");
        inputs.give("");
        inputs.move();
      }
      const std::string text = all_of(*rank.output());
      EXPECT_THAT(text, HasSubstr("HORA_MEMBER_ID=7\n"));
      if (late) {
        EXPECT_THAT(text, HasSubstr("HORA_JOINS_LATE=1\n"));
      } else {
        EXPECT_THAT(text, Not(HasSubstr("HORA_JOINS_LATE")));
        EXPECT_THAT(text, HasSubstr("typed\n"));
      }
      EXPECT_TRUE(rank.left());
      EXPECT_EQ(::waitpid(rank.pid(), nullptr, 0), rank.pid());
      EXPECT_EQ(rank.end(), "");
      rank.reaped();
      rank.look_if_left();
      EXPECT_FALSE(rank.left());
    }));
  }
}

}  // namespace
}  // namespace hora::hrun
