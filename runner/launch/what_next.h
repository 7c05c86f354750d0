// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/clock.h"
#include "runner/observe/root_cause.h"

#include <chrono>
#include <map>
#include <set>
#include <vector>

namespace hora::hrun {

/// The user's wishes about the end of a job. A value.
struct JobPolicy {
  std::chrono::milliseconds grace{5000};  ///< --grace: for ranks between one step of ending them and the next
  TimePoint timeout_at = TimePoint::max();  ///< --timeout
};

/// How all ranks are told to end, each step stronger than the one before.
enum class EndSignal { none, interrupt, terminate, kill };

/// How far a job is. A phase ends when its work is done, or earlier if hrun is told to end.
enum class JobPhase {
  preparing,  ///< until all hosts are ready
  running,    ///< until no process of the job is left
  draining,   ///< until all that ranks wrote to stderr has been read
  reported,   ///< the report is printed; until readers have taken all output
};

/// Everything that decisions about a job depend on. A value.
struct JobState {
  /// A job that has not been started.
  explicit JobState(const JobPolicy& policy) : deadline(policy.timeout_at) {}

  JobPhase phase = JobPhase::preparing;
  TimePoint deadline;                ///< of the next step: the time-out, TERM, KILL, or giving output up
  EndSignal told = EndSignal::none;  ///< the last step that ranks were told
  int signal = 0;        ///< by which hrun was told to end; SIGPIPE: the reader of its output is gone
  bool started = false;  ///< the ranks were started
  bool timed_out = false;
  bool given_up = false;      ///< nothing waits for readers of the output any more
  bool any_ended = false;     ///< at least one rank has ended
  bool stands_still = false;  ///< some ranks have ended, and all others are stopped
  RootCause cause;
  std::set<int> running;           ///< ranks
  std::map<int, Failure> stopped;  ///< of those: the ranks that were stopped, and how and when
  std::vector<Failure> endings;    ///< of ranks and hosts that were not told to end, good ends too, in order
  std::vector<Failure> losses;     ///< of an elastic job: those that it went on without, in its last change
  bool change_over = false;        ///< the change of `losses` is over: a generation was formed after it
  int failed_with = 0;             ///< the exit code of an elastic job that cannot go on; 0: see `cause`

  [[nodiscard]] bool ranks_told() const { return told != EndSignal::none; }
};

/// An event of a job. A value.
struct JobEvent {
  enum class Kind {
    rank_started,
    rank_stopped,
    rank_resumed,
    rank_left_early,  ///< see RootCause::left_early
    rank_ended,
    host_lost,     ///< and its ranks with it
    formed,        ///< an elastic job has formed a new generation
    cannot_go_on,  ///< an elastic job has lost more than it can do without
    all_heard,     ///< every event of a rank that had come by `now` has been given
    signalled,     ///< somebody tells hrun to end
    reader_gone,
    time,    ///< it is `now`
    turned,  ///< everything that could be done at `now` has been done
  };
  Kind kind = Kind::turned;
  TimePoint now{};
  bool anybody_left = false;  ///< a process of the job may be running
  Failure subject{};          ///< of a rank or a host: which, and for an end or a stop how and when
  std::vector<int> ranks;     ///< host_lost: its ranks
  bool goes_on = false;       ///< rank_ended, host_lost: an elastic job goes on without it
  bool was_member = true;     ///< rank_ended, host_lost: an elastic job has lost a member by it
  int status = 0;             ///< cannot_go_on: the exit code for hrun; 0: that of the cause
  int signal = 0;             ///< signalled
  bool phase_done = false;    ///< turned: the work of the present phase is done
  bool output_lost = false;   ///< turned: some output could not be written
};

/// A decision. A value.
struct JobAction {
  enum class Kind {
    go_on,
    start,    ///< the ranks
    end,      ///< send `signal` to all processes that are left; they have time until the state's deadline
    give_up,  ///< do not wait for readers of the output
    drain,    ///< read what the ranks wrote before they ended
    report,   ///< say how the job ended
    finish,   ///< hrun ends with `status`
  };
  /// The cause of the decision, or of a new deadline, for the user.
  enum class Reason {
    none,
    first_failure,        ///< the others have the grace to end by themselves
    standstill,           ///< those that are left are stopped; they have the grace to go on
    hopeless_standstill,  ///< those that are left are stopped, and the job has failed
    cannot_go_on,         ///< an elastic job has lost more than it can do without
    timed_out,
    signalled,
    reader_gone,
  };
  Kind kind = Kind::go_on;
  Reason reason = Reason::none;
  EndSignal signal = EndSignal::none;
  int status = 0;
};

/// A decision, and the state after it. A value.
struct NextStep {
  JobState state;
  JobAction action;
};

/// Decides everything about the course of a job: when its ranks start, who is to blame, when and how the
/// others are told to end, and with which status hrun ends. It is a pure function: it has no clock, and does
/// nothing. The caller gives each event in the order in which it heard of it, and carries the action out. In
/// each turn it gives `all_heard`, `time`, and then `turned` as long as that leads to an action.
///
/// A rank or host that an elastic job goes on without is no cause by itself: the others are not told to end.
/// If the job cannot go on later, the causes are those that it lost in its last change.
///
/// A job that fails or is told to end goes through INT (after a Ctrl-C), TERM and KILL. Each step comes after
/// the grace, or at once when somebody tells hrun again. A signal is sent at most once, and to nobody who has
/// ended.
[[nodiscard]] NextStep what_next(JobState state, const JobEvent& event, const JobPolicy& policy);

}  // namespace hora::hrun
