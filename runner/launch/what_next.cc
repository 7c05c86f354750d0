// SPDX-License-Identifier: Apache-2.0
#include "runner/launch/what_next.h"

#include <algorithm>
#include <csignal>
#include <optional>
#include <utility>

namespace hora::hrun {
namespace {

using Reason = JobAction::Reason;

constexpr int kTimedOut = 124;
constexpr int kOutputLost = 1;
constexpr int kCannotBegin = 1;
constexpr std::chrono::seconds kKillTakes{1};  // at most, until killed ranks have ended

/// One decision: the rules, and what they look at.
class Decision {
 public:
  Decision(JobState& state, const JobEvent& event, const JobPolicy& policy)
      : state_(state), event_(event), policy_(policy) {}

  JobAction make() {
    using Kind = JobEvent::Kind;
    switch (event_.kind) {
      case Kind::rank_started: state_.running.insert(event_.subject.rank); break;
      case Kind::rank_stopped: state_.stopped[event_.subject.rank] = event_.subject; break;
      case Kind::rank_resumed: state_.stopped.erase(event_.subject.rank); break;
      case Kind::rank_left_early: state_.cause.left_early(event_.subject.rank); break;
      case Kind::rank_ended: return rank_ended();
      case Kind::host_lost: return host_lost();
      case Kind::formed: state_.change_over = true; break;
      case Kind::cannot_go_on: return cannot_go_on();
      case Kind::all_heard: return look_for_a_standstill();
      case Kind::signalled: return signalled();
      case Kind::reader_gone: return reader_gone();
      case Kind::time: return event_.now >= state_.deadline ? deadline_passed() : JobAction{};
      case Kind::turned: return next_phase();
    }
    return {};
  }

 private:
  // --- ends of ranks ---

  JobAction rank_ended() {
    if (!event_.goes_on) state_.any_ended = true;
    forget(event_.subject.rank);
    return ended();
  }

  JobAction host_lost() {
    for (const int rank : event_.ranks) forget(rank);
    return ended();
  }

  void forget(int rank) {
    state_.running.erase(rank);
    state_.stopped.erase(rank);
  }

  /// An end that hrun caused says nothing about the job, and a report that was printed stands.
  JobAction ended() {
    const bool reported = state_.phase == JobPhase::reported && state_.cause.known();
    if (state_.ranks_told() || reported) return {};
    if (event_.goes_on && !event_.was_member) return {};  // nobody misses it
    state_.endings.push_back(event_.subject);
    if (event_.goes_on) return lose();
    if (event_.subject.ending.exit_code == 0) return {};
    const bool first = !state_.cause.known();
    if (!state_.change_over) accuse_losses();
    state_.cause.accuse(event_.subject, first_stopped());
    if (!first || !event_.anybody_left) return {};  // nobody needs a deadline; output has as long as it takes
    state_.deadline = std::min(state_.deadline, event_.now + policy_.grace);
    return because(Reason::first_failure);
  }

  JobAction lose() {
    if (std::exchange(state_.change_over, false)) state_.losses.clear();
    state_.losses.push_back(event_.subject);
    return {};
  }

  void accuse_losses() {
    for (const auto& loss : std::exchange(state_.losses, {})) {
      if (loss.ending.exit_code != 0) state_.cause.accuse(loss);
    }
  }

  /// Those that are left cannot know it, so they are told to end at once.
  JobAction cannot_go_on() {
    if (state_.ranks_told() || state_.phase == JobPhase::reported) return {};
    if (!state_.cause.known()) accuse_losses();
    state_.failed_with = event_.status;
    if (event_.status == 0 && !state_.cause.known()) state_.failed_with = kCannotBegin;
    if (!event_.anybody_left) return because(Reason::cannot_go_on);
    return end_all(EndSignal::terminate, Reason::cannot_go_on);
  }

  [[nodiscard]] std::optional<Failure> first_stopped() const {
    const auto first = std::min_element(
        state_.stopped.begin(), state_.stopped.end(),
        [](const auto& one, const auto& other) { return one.second.when < other.second.when; });
    return first == state_.stopped.end() ? std::nullopt : std::optional(first->second);
  }

  /// Where some ranks have ended, and those that are left are stopped, nothing happens any more by itself. If
  /// the job has failed that is its end; else somebody has time to let them go on.
  JobAction look_for_a_standstill() {
    const bool all_stopped = !state_.running.empty() && state_.running.size() == state_.stopped.size();
    const bool stands = all_stopped && !state_.ranks_told();
    if (stands && state_.cause.known()) return end_all(EndSignal::terminate, Reason::hopeless_standstill);
    if (stands && state_.any_ended && !state_.stands_still) {
      state_.stands_still = true;
      state_.deadline = std::min(state_.deadline, event_.now + policy_.grace);
      return because(Reason::standstill);
    }
    const bool goes_on = !stands && std::exchange(state_.stands_still, false);
    if (goes_on && !state_.cause.known() && !state_.ranks_told()) state_.deadline = policy_.timeout_at;
    return {};
  }

  // --- ending the job ---

  JobAction deadline_passed() {
    const auto standing = first_stopped();
    const bool blamed = failed() || state_.ranks_told();
    if (state_.stands_still && standing && !blamed) state_.cause.accuse(*standing);
    Reason reason = Reason::none;
    if (!failed() && !ending()) {
      state_.timed_out = true;
      reason = Reason::timed_out;
    }
    return stronger(reason);
  }

  /// A Ctrl-C reaches ranks as one. Each further signal takes the next step at once, instead of the grace. A
  /// Ctrl-C also ends the reader of the output, perhaps sooner: it is the first one then.
  JobAction signalled() {
    const bool reader_was_gone = state_.signal == SIGPIPE;
    const bool first = state_.signal == 0 || reader_was_gone;
    if (first) state_.signal = event_.signal;
    const Reason reason = first ? Reason::signalled : Reason::none;
    if (!event_.anybody_left) return give_up(reason);  // nobody is left who could need time
    if (!state_.ranks_told())
      return end_all(event_.signal == SIGINT ? EndSignal::interrupt : EndSignal::terminate, reason);
    return reader_was_gone ? because(reason) : stronger(reason);
  }

  /// It is told at every write, and is never a second Ctrl-C.
  JobAction reader_gone() {
    if (state_.signal != 0) return {};
    state_.signal = SIGPIPE;
    return end_all(EndSignal::terminate, Reason::reader_gone);
  }

  /// The next step: TERM, then KILL, then giving up what nobody reads.
  JobAction stronger(Reason reason) {
    if (!event_.anybody_left || state_.told == EndSignal::kill) return give_up(reason);
    return end_all(state_.told == EndSignal::terminate ? EndSignal::kill : EndSignal::terminate, reason);
  }

  JobAction end_all(EndSignal signal, Reason reason) {
    JobAction action = because(reason);
    if (state_.told >= signal) return action;
    state_.told = signal;
    state_.deadline = event_.now + (signal == EndSignal::kill ? kKillTakes : policy_.grace);
    if (!event_.anybody_left) return action;
    action.kind = JobAction::Kind::end;
    action.signal = signal;
    return action;
  }

  JobAction give_up(Reason reason) {
    state_.given_up = true;
    state_.deadline = TimePoint::max();
    JobAction action = because(reason);
    action.kind = JobAction::Kind::give_up;
    return action;
  }

  // --- phases ---

  [[nodiscard]] bool failed() const { return state_.cause.known() || state_.failed_with != 0; }

  /// Whether hrun was told to end, or its time is over.
  [[nodiscard]] bool ending() const { return state_.signal != 0 || state_.timed_out; }

  JobAction next_phase() {
    switch (state_.phase) {
      case JobPhase::preparing:
        if (ending()) return drain();
        if (!event_.phase_done) return {};
        state_.started = true;
        return enter(JobPhase::running, JobAction::Kind::start);
      case JobPhase::running:
        if (!event_.phase_done) return {};
        return drain();
      case JobPhase::draining:
        if (!event_.phase_done && !state_.given_up) return {};
        return enter(JobPhase::reported, JobAction::Kind::report);
      case JobPhase::reported:
        if (!event_.phase_done && !state_.given_up) return {};
        return finish();
    }
    return {};
  }

  /// Output that is read has as long as it takes, unless hrun is told to end or its time is over.
  JobAction drain() {
    if (!ending()) state_.deadline = policy_.timeout_at;
    return enter(JobPhase::draining, JobAction::Kind::drain);
  }

  JobAction enter(JobPhase phase, JobAction::Kind kind) {
    state_.phase = phase;
    JobAction action;
    action.kind = kind;
    return action;
  }

  [[nodiscard]] JobAction finish() const {
    JobAction action;
    action.kind = JobAction::Kind::finish;
    action.status = status();
    return action;
  }

  [[nodiscard]] int status() const {
    if (state_.failed_with != 0) return state_.failed_with;
    if (state_.cause.known()) return state_.cause.failure().ending.exit_code;
    if (state_.timed_out) return kTimedOut;
    if (state_.signal != 0) return 128 + state_.signal;
    return event_.output_lost ? kOutputLost : 0;
  }

  static JobAction because(Reason reason) {
    JobAction action;
    action.reason = reason;
    return action;
  }

  JobState& state_;
  const JobEvent& event_;
  const JobPolicy& policy_;
};

}  // namespace

NextStep what_next(JobState state, const JobEvent& event, const JobPolicy& policy) {
  const JobAction action = Decision(state, event, policy).make();
  return {std::move(state), action};
}

}  // namespace hora::hrun
