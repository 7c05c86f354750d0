// SPDX-License-Identifier: Apache-2.0
#include "test/simulation/elastic/plan.h"

#include <algorithm>
#include <array>
#include <random>

namespace hora::elastic {

const char* name(Bug bug) {
  static constexpr const char* kNames[kBugs] = {"none",
                                                "votes after report",
                                                "report invents a vote",
                                                "report forgets a vote",
                                                "kill is taken for death",
                                                "closed is taken for death",
                                                "state moves with the vote",
                                                "joiner votes at once",
                                                "joiner is a source",
                                                "starts without go",
                                                "ignores stop",
                                                "old votes count",
                                                "planned change at once",
                                                "decides without joiners",
                                                "resolution is ignored",
                                                "hrun never looks",
                                                "identity is used again",
                                                "joins at any time",
                                                "part counts as state"};
  return kNames[static_cast<int>(bug)];
}

namespace {

using Kind = PlannedEvent::Kind;
constexpr std::array kKinds = {Kind::kill,   Kind::kill,      Kind::kill,  Kind::freeze,
                               Kind::freeze, Kind::join,      Kind::leave, Kind::leave,
                               Kind::cut,    Kind::lose_host, Kind::resize};

}  // namespace

ElasticPlan elastic_plan_of(std::uint64_t seed, Bug bug) {
  std::mt19937_64 random(seed * 2 + 1);
  const auto below = [&](int bound) {
    return static_cast<int>(random() % static_cast<std::uint64_t>(bound));
  };
  ElasticPlan plan;
  plan.seed = seed;
  plan.bug = bug;
  plan.hosts = 1 + below(3);
  plan.slots = 1 + below(4);
  const int all = plan.hosts * plan.slots;
  plan.first = std::max(1 + below(all), 1 + below(all));
  plan.least = std::min(1 + below(plan.first), 1 + below(plan.first));
  plan.steps = 40 + below(120);
  plan.locked = below(2) == 0;
  plan.replaces = below(4) != 0;
  for (int left = below(7); left > 0; --left) {
    PlannedEvent event;
    event.kind = kKinds[static_cast<std::size_t>(below(static_cast<int>(kKinds.size())))];
    event.at = std::chrono::milliseconds(below(25 * plan.steps));
    if (below(2) == 0) event.moment = static_cast<Moment>(1 + below(kMoments - 1));
    event.subject = below(1000);
    event.other = below(1000);
    event.time = std::chrono::milliseconds(1 << below(13));
    event.seen = below(3) != 0;
    plan.events.push_back(event);
  }
  return plan;
}

}  // namespace hora::elastic
