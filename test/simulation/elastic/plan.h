// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/clock.h"

#include <chrono>
#include <cstdint>
#include <vector>

namespace hora::elastic {

/// A moment in a change of generations at which a fault may strike: when some process has just got there.
enum class Moment { none, voted, decided, stopping, reported, record, formed, started, copying };
inline constexpr int kMoments = 9;

/// An event that the plan of a simulated job has at a time, or at a moment after that time. A value.
struct PlannedEvent {
  enum class Kind {
    kill,       ///< a process ends
    freeze,     ///< a process stands still for `time`, as after SIGSTOP and SIGCONT
    cut,        ///< the link between two hosts drops everything from now on
    lose_host,  ///< nothing reaches the host, and nothing comes from it
    leave,      ///< a process is asked to end, as by SIGTERM
    join,       ///< one process more is started
    resize,     ///< the job is to have another number of members
  };
  Kind kind = Kind::kill;
  Clock::duration at{};
  Moment moment = Moment::none;  ///< the event strikes the first process that gets there after `at`
  int subject = 0;               ///< which of the living processes or hosts, by remainder
  int other = 0;                 ///< cut: the other host; resize: the number, by remainder
  Clock::duration time{};
  bool seen = true;  ///< freeze: hrun learns that the process is stopped
};

/// A mistake that is made on purpose, to see that the checks find it.
enum class Bug {
  none,
  votes_after_report,         ///< the engine goes on after the report
  report_invents_a_vote,      ///< a report tells of a vote that was not given
  report_forgets_a_vote,      ///< a report does not tell of the last vote
  kill_is_taken_for_death,    ///< hrun counts a process as dead when it sends the signal
  closed_is_taken_for_death,  ///< hrun counts a process as dead when another one loses the connection
  state_moves_with_the_vote,  ///< a step is made when it is voted for
  joiner_votes_at_once,       ///< a process votes without the state
  joiner_is_a_source,         ///< a process without the state gives it to others
  starts_without_go,          ///< a member starts when its own connections are there
  ignores_stop,               ///< a member does not stop when it is told to
  old_votes_count,            ///< votes of the former generation count in the next one
  planned_change_at_once,     ///< a planned change does not wait for the step
  decides_without_joiners,    ///< a step is decided without the votes of those that have no state
  resolution_is_ignored,      ///< a member does not make the step that the record says counts
  hrun_never_looks,           ///< silence and deadlines are not noticed
  identity_is_used_again,     ///< a process that replaces another one takes its identity
  joins_at_any_time,          ///< a report says that processes may join, although they cannot
  part_counts_as_state,       ///< a process that still gets the state reports that it has it
};
inline constexpr int kBugs = 19;
[[nodiscard]] const char* name(Bug bug);

/// An elastic job with all its faults, made of a seed. A value.
struct ElasticPlan {
  std::uint64_t seed = 0;
  int hosts = 1;
  int slots = 2;  ///< of each host
  int first = 2;  ///< processes at the beginning
  int least = 1;  ///< --min-np
  int steps = 10;
  bool locked = true;    ///< each member decides by itself when it has all votes; else rank 0 does
  bool replaces = true;  ///< a process that has died is replaced
  std::vector<PlannedEvent> events;
  Bug bug = Bug::none;
};
/// With 0 to 6 events, of which half strike at moments.
[[nodiscard]] ElasticPlan elastic_plan_of(std::uint64_t seed, Bug bug = Bug::none);

}  // namespace hora::elastic
