// SPDX-License-Identifier: Apache-2.0
// The rules one by one, and then thousands of random jobs in a simulated world: ranks that end well, badly or
// never, are stopped, or ignore signals; hosts that are lost; users who press Ctrl-C; readers that stand
// still.
#include "runner/launch/what_next.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <utility>
#include <vector>

namespace hora::hrun {
namespace {

using Event = JobEvent::Kind;
using Act = JobAction::Kind;
using Reason = JobAction::Reason;
using std::chrono::milliseconds;

constexpr milliseconds kGrace{5000};

/// A job whose events are written down in a test. Its ranks have started.
class Course {
 public:
  explicit Course(int ranks, TimePoint timeout_at = TimePoint::max())
      : policy_{kGrace, timeout_at}, state_(policy_) {
    EXPECT_EQ(turned(true).kind, Act::start);
    left_ = true;
    for (int rank = 0; rank < ranks; ++rank) of_rank(Event::rank_started, rank);
  }

  void at(milliseconds time) { now_ = TimePoint(time); }
  void nobody_is_left() { left_ = false; }
  JobAction of_rank(Event kind, int rank, int exit_code = 0) {
    JobEvent event = of(kind);
    event.subject = {rank, 0, {exit_code, "", 0}, now_};
    return decide(event);
  }
  /// The job goes on without a rank or host.
  JobAction lose(Event kind, int rank, int exit_code = 137) {
    JobEvent event = of(kind);
    event.subject = {rank, 0, {exit_code, "", 0}, now_};
    event.goes_on = true;
    if (kind == Event::host_lost) event.ranks = {0};
    return decide(event);
  }
  JobAction cannot_go_on(int status) {
    JobEvent event = of(Event::cannot_go_on);
    event.status = status;
    return decide(event);
  }
  JobAction signal(int number) {
    JobEvent event = of(Event::signalled);
    event.signal = number;
    return decide(event);
  }
  JobAction hear(Event kind) { return decide(of(kind)); }
  JobAction turned(bool phase_done, bool output_lost = false) {
    JobEvent event = of(Event::turned);
    event.phase_done = phase_done;
    event.output_lost = output_lost;
    return decide(event);
  }
  /// The status with which hrun ends now that nobody is left.
  int status(bool output_lost = false) {
    left_ = false;
    EXPECT_EQ(turned(true).kind, Act::drain);
    EXPECT_EQ(turned(true).kind, Act::report);
    const JobAction last = turned(true, output_lost);
    EXPECT_EQ(last.kind, Act::finish);
    return last.status;
  }
  [[nodiscard]] const JobState& state() const { return state_; }

 private:
  JobEvent of(Event kind) const {
    JobEvent event;
    event.kind = kind;
    event.now = now_;
    event.anybody_left = left_;
    return event;
  }
  JobAction decide(const JobEvent& event) {
    NextStep next = what_next(std::move(state_), event, policy_);
    state_ = std::move(next.state);
    return next.action;
  }

  JobPolicy policy_;
  JobState state_;
  TimePoint now_{};
  bool left_ = false;
};

TEST(WhatNext, IsAGoodEndWhereAllRanksEndWell) {
  Course job(2);
  for (const int rank : {0, 1}) EXPECT_EQ(job.of_rank(Event::rank_ended, rank).kind, Act::go_on);
  EXPECT_EQ(job.state().deadline, TimePoint::max());
  EXPECT_EQ(job.status(), 0);
}

TEST(WhatNext, AfterAFailureTheOthersHaveTheGraceThenTermThenKill) {
  Course job(2);
  job.at(milliseconds(100));
  EXPECT_EQ(job.of_rank(Event::rank_ended, 1, 7).reason, Reason::first_failure);
  job.at(milliseconds(5099));
  EXPECT_EQ(job.hear(Event::time).kind, Act::go_on);
  job.at(milliseconds(5100));
  EXPECT_EQ(job.hear(Event::time).signal, EndSignal::terminate);
  EXPECT_EQ(job.of_rank(Event::rank_ended, 0, 143).kind, Act::go_on) << "hrun caused that end";
  job.at(milliseconds(10100));
  EXPECT_EQ(job.hear(Event::time).signal, EndSignal::kill);
  job.at(milliseconds(11100));
  EXPECT_EQ(job.hear(Event::time).kind, Act::give_up);
  EXPECT_EQ(job.hear(Event::time).kind, Act::go_on);
  EXPECT_EQ(job.status(), 7);
}

TEST(WhatNext, EachCtrlCTakesTheNextStep) {
  Course job(1);
  const JobAction first = job.signal(SIGINT);
  EXPECT_EQ(first.signal, EndSignal::interrupt);
  EXPECT_EQ(first.reason, Reason::signalled);
  EXPECT_EQ(job.signal(SIGINT).signal, EndSignal::terminate);
  EXPECT_EQ(job.signal(SIGINT).signal, EndSignal::kill);
  EXPECT_EQ(job.signal(SIGINT).kind, Act::give_up);
  EXPECT_EQ(job.turned(false).kind, Act::go_on) << "somebody is left";
  job.nobody_is_left();
  EXPECT_EQ(job.turned(true).kind, Act::drain);
  EXPECT_EQ(job.turned(false).kind, Act::report) << "output was given up";
  const JobAction last = job.turned(false);
  EXPECT_EQ(last.kind, Act::finish);
  EXPECT_EQ(last.status, 128 + SIGINT);
}

TEST(WhatNext, AReaderHasAsLongAsItTakesAlsoAfterAFailure) {
  Course job(2, TimePoint(milliseconds(60000)));
  job.of_rank(Event::rank_ended, 0, 3);
  job.of_rank(Event::rank_ended, 1, 1);
  job.nobody_is_left();
  EXPECT_EQ(job.turned(true).kind, Act::drain);
  EXPECT_EQ(job.state().deadline, TimePoint(milliseconds(60000)));
  job.at(milliseconds(60000));
  EXPECT_EQ(job.hear(Event::time).kind, Act::give_up);
  EXPECT_EQ(job.turned(false).kind, Act::report);
  EXPECT_EQ(job.turned(false).status, 3);
}

TEST(WhatNext, ATermOfHrunIsATermOfItsRanks) {
  Course job(1);
  EXPECT_EQ(job.signal(SIGTERM).signal, EndSignal::terminate);
  EXPECT_EQ(job.status(), 128 + SIGTERM);
}

TEST(WhatNext, ACtrlCThatAlsoEndedTheReaderIsTheFirstOne) {
  Course job(1);
  EXPECT_EQ(job.hear(Event::reader_gone).signal, EndSignal::terminate);
  EXPECT_EQ(job.hear(Event::reader_gone).kind, Act::go_on);
  EXPECT_EQ(job.signal(SIGINT).kind, Act::go_on);
  EXPECT_EQ(job.signal(SIGINT).signal, EndSignal::kill);
  EXPECT_EQ(job.status(), 128 + SIGINT);
}

TEST(WhatNext, ATimeOutEndsTheJobWithItsOwnStatus) {
  Course job(1, TimePoint(milliseconds(1000)));
  job.at(milliseconds(1000));
  const JobAction late = job.hear(Event::time);
  EXPECT_EQ(late.reason, Reason::timed_out);
  EXPECT_EQ(late.signal, EndSignal::terminate);
  EXPECT_EQ(job.status(), 124);
}

TEST(WhatNext, RanksThatAreStoppedForGoodAreToBlameAfterTheGrace) {
  Course job(2);
  job.of_rank(Event::rank_stopped, 1, 128 + SIGSTOP);
  EXPECT_EQ(job.hear(Event::all_heard).kind, Act::go_on) << "the other one runs";
  job.of_rank(Event::rank_ended, 0);
  EXPECT_EQ(job.hear(Event::all_heard).reason, Reason::standstill);
  job.at(kGrace);
  EXPECT_EQ(job.hear(Event::time).signal, EndSignal::terminate);
  EXPECT_EQ(job.status(), 128 + SIGSTOP);
}

TEST(WhatNext, RanksThatGoOnHaveAllTheirTimeAgain) {
  Course job(2);
  job.of_rank(Event::rank_stopped, 1, 128 + SIGSTOP);
  job.of_rank(Event::rank_ended, 0);
  job.hear(Event::all_heard);
  job.of_rank(Event::rank_resumed, 1);
  job.hear(Event::all_heard);
  EXPECT_EQ(job.state().deadline, TimePoint::max());
  EXPECT_EQ(job.status(), 0);
}

TEST(WhatNext, AFailedJobDoesNotWaitForRanksThatAreStopped) {
  Course job(2);
  job.of_rank(Event::rank_ended, 0, 3);
  job.of_rank(Event::rank_stopped, 1, 128 + SIGSTOP);
  const JobAction end = job.hear(Event::all_heard);
  EXPECT_EQ(end.reason, Reason::hopeless_standstill);
  EXPECT_EQ(end.signal, EndSignal::terminate);
  EXPECT_EQ(job.status(), 3);
}

TEST(WhatNext, AReportThatWasPrintedStands) {
  Course job(2);
  job.of_rank(Event::rank_ended, 0, 3);
  job.nobody_is_left();
  EXPECT_EQ(job.turned(true).kind, Act::drain);
  EXPECT_EQ(job.turned(true).kind, Act::report);
  JobEvent lost;
  lost.kind = Event::host_lost;
  lost.subject = {-1, 0, {255, "", 0}, TimePoint{}};
  const NextStep next = what_next(job.state(), lost, {});
  EXPECT_EQ(next.state.cause.failure().rank, 0);
  EXPECT_EQ(next.state.endings.size(), 1u);
}

TEST(WhatNext, LostOutputIsAFailureOfHrunAlone) {
  EXPECT_EQ(Course(1).status(true), 1);
  Course failed(1);
  failed.of_rank(Event::rank_ended, 0, 9);
  EXPECT_EQ(failed.status(true), 9);
}

TEST(WhatNext, AnElasticJobGoesOnWithoutRanksAndHosts) {
  Course job(3);
  EXPECT_EQ(job.lose(Event::rank_ended, 1).reason, Reason::none);
  job.hear(Event::formed);
  EXPECT_EQ(job.lose(Event::host_lost, -1, 255).reason, Reason::none);
  job.of_rank(Event::rank_stopped, 2, 128 + SIGSTOP);
  EXPECT_EQ(job.hear(Event::all_heard).reason, Reason::none) << "no rank has done its work";
  job.of_rank(Event::rank_resumed, 2);
  EXPECT_EQ(job.state().deadline, TimePoint::max());
  EXPECT_FALSE(job.state().cause.known());
  EXPECT_EQ(job.state().endings.size(), 2u);
  job.of_rank(Event::rank_ended, 2);
  EXPECT_EQ(job.status(), 0);
}

TEST(WhatNext, AnElasticJobThatCannotGoOnIsEndedWithItsOwnStatus) {
  Course job(4);
  job.lose(Event::rank_ended, 3, 9);
  job.hear(Event::formed);
  job.lose(Event::rank_ended, 0, 0);
  job.at(milliseconds(2000));
  job.lose(Event::rank_ended, 1, 7);
  job.at(milliseconds(4000));
  job.lose(Event::rank_ended, 2, 8);
  EXPECT_FALSE(job.state().cause.known());
  const JobAction end = job.cannot_go_on(74);
  EXPECT_EQ(end.reason, Reason::cannot_go_on);
  EXPECT_EQ(end.signal, EndSignal::terminate);
  EXPECT_EQ(job.state().cause.failure().rank, 1) << "the first failure of the last change";
  EXPECT_EQ(job.cannot_go_on(75).kind, Act::go_on);
  EXPECT_EQ(job.status(), 74);
}

TEST(WhatNext, AnElasticJobThatPausesTooLongBlamesItsLastChange) {
  Course job(2);
  job.lose(Event::rank_ended, 1, 9);
  job.hear(Event::formed);
  EXPECT_EQ(job.cannot_go_on(75).signal, EndSignal::terminate);
  EXPECT_EQ(job.state().cause.failure().rank, 1);
  EXPECT_EQ(job.status(), 75);
}

TEST(WhatNext, AnElasticJobThatCannotBeginHasTheStatusOfTheRankThatFailed) {
  Course job(2);
  EXPECT_EQ(job.of_rank(Event::rank_ended, 1, 9).reason, Reason::first_failure);
  EXPECT_EQ(job.cannot_go_on(0).signal, EndSignal::terminate);
  EXPECT_EQ(job.status(), 9);
  Course good(2);
  good.of_rank(Event::rank_ended, 1);
  EXPECT_EQ(good.cannot_go_on(0).signal, EndSignal::terminate);
  Course lost(2);
  lost.lose(Event::rank_ended, 1, 9);
  lost.of_rank(Event::rank_ended, 0);
  lost.nobody_is_left();
  lost.cannot_go_on(0);
  EXPECT_EQ(lost.status(), 9);
  EXPECT_EQ(good.status(), 1);
}

TEST(WhatNext, AFailureAfterTheLastStepIsTheCauseAlsoInAnElasticJob) {
  Course job(3);
  job.lose(Event::rank_ended, 2, 9);
  job.hear(Event::formed);
  EXPECT_EQ(job.of_rank(Event::rank_ended, 1, 7).reason, Reason::first_failure);
  EXPECT_EQ(job.status(), 7);
}

TEST(WhatNext, NobodyIsToldWhereAnElasticJobHasLostAll) {
  Course job(1);
  job.nobody_is_left();
  job.lose(Event::rank_ended, 0, 9);
  EXPECT_EQ(job.cannot_go_on(74).kind, Act::go_on);
  EXPECT_EQ(job.status(), 74);
}

TEST(WhatNext, RanksAreNotStartedOnceHrunWasToldToEnd) {
  const JobPolicy policy;
  JobEvent told;
  told.kind = Event::signalled;
  told.signal = SIGINT;
  const NextStep next = what_next(JobState(policy), told, policy);
  EXPECT_EQ(next.action.kind, Act::give_up);
  JobEvent turned;
  turned.phase_done = true;
  EXPECT_EQ(what_next(next.state, turned, policy).action.kind, Act::drain);
}

// --- random jobs ---

struct SimulatedRank {
  int host = 0;
  bool running = false;
  bool left = false;  ///< its processes, which may be there for longer than the rank
  bool stopped = false;
  TimePoint stopped_at{};
  TimePoint ends_at = TimePoint::max();
  TimePoint gone_at = TimePoint::max();  ///< all of its processes
  TimePoint stops_at = TimePoint::max();
  TimePoint resumes_at = TimePoint::max();
  int exit_code = 0;
  std::optional<milliseconds> after_interrupt;  ///< until it ends because of the signal; none: it ignores it
  std::optional<milliseconds> after_terminate;
  std::optional<milliseconds> after_failure;  ///< of another rank

  [[nodiscard]] bool can_end() const { return !stopped || exit_code == 128 + SIGKILL; }
};

/// A job in a random world, with the promises of hrun checked at each step.
class Simulation {
 public:
  explicit Simulation(unsigned seed) : random_(seed) {
    policy_.grace = time_up_to(4000);
    if (one_in(3)) policy_.timeout_at = now_ + time_up_to(12000);
    elastic_ = one_in(3);
    state_ = JobState(policy_);
    ready_at_ = now_ + time_up_to(500);
    reader_gone_at_ = one_in(6) ? now_ + time_up_to(10000) : TimePoint::max();
    hosts_lost_at_.resize(1 + random_() % 3, TimePoint::max());
    for (auto& lost_at : hosts_lost_at_) {
      if (one_in(8)) lost_at = now_ + time_up_to(8000);
      const auto ranks = 1 + random_() % 3;
      for (auto i = ranks; i > 0; --i) ranks_.push_back(make_rank(lost_at));
    }
    for (auto i = one_in(2) ? 0 : random_() % 5; i > 0; --i) {
      constexpr std::array kSignals{SIGINT, SIGINT, SIGTERM, SIGHUP};
      signals_.emplace(now_ + time_up_to(10000), kSignals[random_() % kSignals.size()]);
    }
    // The user gives up, and needs no more than one Ctrl-C for each step.
    for (int i = 0; i < 4; ++i) signals_.emplace(kUserGivesUp + milliseconds(i), SIGINT);
  }

  void run() {
    next_phases();
    for (int turns = 0; !status_; ++turns) {
      ASSERT_LT(turns, 1000) << "hrun does not end";
      now_ = std::max(now_, next_time());
      ASSERT_LE(now_, kUserGivesUp + std::chrono::seconds(2)) << "hrun ends too late";
      take_signals();
      take_rank_events();
      happens(of(Event::all_heard));
      check_standstill();
      happens(of(Event::time));
      if (state_.phase >= JobPhase::draining && now_ >= abandoned_at_) abandon();
      next_phases();
    }
    check_status();
  }

  [[nodiscard]] const std::set<Reason>& reasons() const { return reasons_; }
  [[nodiscard]] int status() const { return *status_; }

 private:
  static constexpr TimePoint kUserGivesUp{std::chrono::seconds(60)};
  static constexpr milliseconds kKilledWithin{5};

  // --- the world ---

  bool one_in(unsigned n) { return random_() % n == 0; }
  milliseconds time_up_to(unsigned most) { return milliseconds(random_() % (most + 1)); }
  std::optional<milliseconds> reaction() {
    return one_in(3) ? std::nullopt : std::optional(time_up_to(6000));
  }

  SimulatedRank make_rank(const TimePoint& host_lost_at) {
    SimulatedRank rank;
    rank.host = static_cast<int>(&host_lost_at - hosts_lost_at_.data());
    if (!one_in(4)) rank.ends_at = ready_at_ + time_up_to(9000);
    constexpr std::array kCodes{0, 0, 0, 1, 7, 128 + SIGABRT, 128 + SIGKILL, 255};
    rank.exit_code = kCodes[random_() % kCodes.size()];
    if (one_in(6)) rank.stops_at = ready_at_ + time_up_to(8000);
    if (one_in(2)) rank.resumes_at = rank.stops_at + std::min(time_up_to(8000), milliseconds(8000));
    rank.after_interrupt = reaction();
    rank.after_terminate = reaction();
    rank.after_failure = reaction();
    return rank;
  }

  [[nodiscard]] bool anybody_left() const {
    return std::any_of(ranks_.begin(), ranks_.end(), [](const auto& rank) { return rank.left; });
  }

  [[nodiscard]] TimePoint next_time() const {
    TimePoint next = std::min(state_.deadline, kUserGivesUp + std::chrono::hours(1));
    const auto consider = [&](TimePoint time) {
      if (time > now_) next = std::min(next, time);
    };
    if (!signals_.empty()) consider(signals_.begin()->first);
    for (const TimePoint time : {ready_at_, reader_gone_at_, errors_read_at_, written_at_, abandoned_at_})
      consider(time);
    for (const TimePoint time : hosts_lost_at_) consider(time);
    for (const auto& rank : ranks_) {
      if (rank.left) consider(rank.gone_at);
      if (!rank.running) continue;
      consider(rank.stops_at);
      consider(rank.resumes_at);
      if (rank.can_end()) consider(rank.ends_at);
    }
    return next;
  }

  void take_signals() {
    if (now_ >= reader_gone_at_ && state_.phase <= JobPhase::draining) {
      if (expected_signal_ == 0) expected_signal_ = SIGPIPE;
      trigger();
      happens(of(Event::reader_gone));
    }
    while (!signals_.empty() && signals_.begin()->first <= now_) {
      JobEvent event = of(Event::signalled);
      event.signal = last_signal_ = signals_.begin()->second;
      signals_.erase(signals_.begin());
      if (expected_signal_ == 0 || expected_signal_ == SIGPIPE) expected_signal_ = event.signal;
      trigger();
      signalled_at_ = now_;
      happens(event);
    }
  }

  /// hrun hears of ends and stops that are at one time in any order.
  void take_rank_events() {
    std::vector<int> order(ranks_.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int>(i);
    std::shuffle(order.begin(), order.end(), random_);
    for (std::size_t host = 0; host < hosts_lost_at_.size(); ++host) {
      if (state_.started && now_ >= hosts_lost_at_[host]) lose(static_cast<int>(host));
    }
    for (const int rank : order) turn_of(rank);
  }

  void turn_of(int index) {
    SimulatedRank& rank = ranks_[static_cast<std::size_t>(index)];
    if (rank.running && !rank.stopped && now_ >= rank.stops_at) {
      rank.stops_at = TimePoint::max();
      rank.stopped = true;
      rank.stopped_at = now_;
      happens_to(Event::rank_stopped, index, 128 + SIGSTOP);
    }
    if (rank.running && rank.stopped && now_ >= rank.resumes_at) {
      rank.stopped = false;
      happens_to(Event::rank_resumed, index, 0);
    }
    if (rank.running && rank.can_end() && now_ >= rank.ends_at) end(index);
    if (!rank.running && rank.left && now_ >= rank.gone_at) rank.left = false;
  }

  void end(int index) {
    SimulatedRank& rank = ranks_[static_cast<std::size_t>(index)];
    rank.running = rank.stopped = false;
    rank.gone_at = last_sent_ == EndSignal::none || one_in(2) ? now_ : std::max(now_, rank.gone_at);
    if (rank.gone_at == TimePoint::max()) rank.gone_at = now_ + time_up_to(3000);
    rank.left = now_ < rank.gone_at;
    if (one_in(10)) {
      expected_.left_early(index);
      happens_to(Event::rank_left_early, index, 0);
    }
    JobEvent event = of(Event::rank_ended);
    event.subject = {index, rank.host, {rank.exit_code, "", 0}, now_};
    take_end(event);
  }

  /// An elastic job goes on without those that fail, until it cannot.
  void take_end(JobEvent event) {
    event.goes_on = elastic_ && event.subject.ending.exit_code != 0;
    if (!event.goes_on) {
      expect_blame(event.subject);
      return happens(event);
    }
    const bool counts = last_sent_ == EndSignal::none && reports_ == 0;
    if (counts && std::exchange(change_over_, false)) losses_.clear();
    if (counts) losses_.push_back(event.subject);
    happens(event);
    if (one_in(3)) {
      if (counts) change_over_ = true;
      happens(of(Event::formed));
    } else if (one_in(2)) {
      if (counts) cannot_go_on();
      JobEvent at_end = of(Event::cannot_go_on);
      at_end.status = 74;
      happens(at_end);
    }
  }

  void cannot_go_on() {
    expected_failure_ = true;
    const bool blamed = expected_.known();
    for (const auto& loss : losses_) {
      if (!blamed) expected_.accuse(loss);
    }
    trigger();
  }

  void lose(int host) {
    hosts_lost_at_[static_cast<std::size_t>(host)] = TimePoint::max();
    JobEvent event = of(Event::host_lost);
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      if (ranks_[i].host != host) continue;
      ranks_[i].running = ranks_[i].left = ranks_[i].stopped = false;
      event.ranks.push_back(static_cast<int>(i));
    }
    event.subject = {-1, host, {255, "", 0}, now_};
    event.anybody_left = anybody_left();
    take_end(event);
  }

  /// Other ranks end because they miss one that failed.
  void react_to_a_failure() {
    for (auto& rank : ranks_) {
      if (!rank.running || !rank.after_failure) continue;
      if (rank.exit_code == 0) rank.exit_code = 1;
      rank.ends_at = std::min(rank.ends_at, now_ + *rank.after_failure);
    }
  }

  void send(EndSignal signal) {
    for (auto& rank : ranks_) {
      if (!rank.left) continue;
      rank.stopped = false;  // as SIGCONT is sent with it
      const auto after = signal == EndSignal::interrupt   ? rank.after_interrupt
                         : signal == EndSignal::terminate ? rank.after_terminate
                                                          : std::optional(kKilledWithin);
      if (!after) continue;
      rank.exit_code = signal == EndSignal::kill ? 128 + SIGKILL : 3;
      rank.ends_at = std::min(rank.ends_at, now_ + *after);
      rank.gone_at = std::min(rank.gone_at, now_ + *after);
    }
  }

  void abandon() {
    if (written_at_ > now_) output_lost_ = true;
    written_at_ = errors_read_at_ = std::min(written_at_, now_);
    abandoned_at_ = TimePoint::max();
  }

  // --- hrun ---

  JobEvent of(Event kind) const {
    JobEvent event;
    event.kind = kind;
    event.now = now_;
    event.anybody_left = anybody_left();
    return event;
  }

  void happens_to(Event kind, int rank, int exit_code) {
    JobEvent event = of(kind);
    event.subject = {rank, ranks_[static_cast<std::size_t>(rank)].host, {exit_code, "", 0}, now_};
    happens(event);
  }

  JobAction decide(const JobEvent& event) {
    NextStep next = what_next(std::move(state_), event, policy_);
    state_ = std::move(next.state);
    reasons_.insert(next.action.reason);
    if (next.action.reason == Reason::timed_out) {
      EXPECT_GE(now_, policy_.timeout_at);
      trigger();
      timed_out_ = true;
    }
    return next.action;
  }

  void happens(const JobEvent& event) {
    const JobAction action = decide(event);
    if (action.kind == Act::end) {
      check_signal(action.signal);
      send(action.signal);
    } else if (action.kind == Act::give_up) {
      abandon();
    } else {
      EXPECT_EQ(action.kind, Act::go_on);
    }
  }

  void next_phases() {
    while (true) {
      JobEvent event = of(Event::turned);
      switch (state_.phase) {
        case JobPhase::preparing: event.phase_done = now_ >= ready_at_; break;
        case JobPhase::running: event.phase_done = !anybody_left(); break;
        case JobPhase::draining: event.phase_done = now_ >= errors_read_at_; break;
        case JobPhase::reported: event.phase_done = now_ >= written_at_; break;
      }
      event.output_lost = output_lost_;
      const JobAction action = decide(event);
      switch (action.kind) {
        case Act::start: start(); break;
        case Act::drain: drain(); break;
        case Act::report: EXPECT_EQ(reports_++, 0); break;
        case Act::finish: status_ = action.status; return;
        default: EXPECT_EQ(action.kind, Act::go_on); return;
      }
    }
  }

  void start() {
    EXPECT_GE(now_, ready_at_);
    EXPECT_EQ(expected_signal_, 0) << "hrun was told to end before the ranks were started";
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      ranks_[i].running = ranks_[i].left = true;
      happens_to(Event::rank_started, static_cast<int>(i), 0);
    }
  }

  void drain() {
    EXPECT_FALSE(anybody_left());
    if (triggered_at_) {
      EXPECT_LE(now_, *triggered_at_ + 3 * policy_.grace + std::chrono::seconds(1) + kKilledWithin)
          << "each step lasts the grace at most";
    }
    errors_read_at_ = now_ + time_up_to(1000);
    written_at_ = one_in(5) ? TimePoint::max() : errors_read_at_ + time_up_to(1000);
    abandoned_at_ = now_ + std::max(policy_.grace, milliseconds(1000));
  }

  // --- promises ---

  /// The job is to end from here on.
  void trigger() {
    if (!triggered_at_) triggered_at_ = now_;
  }

  /// hrun blames the rank that the rules of RootCause name, of those that it had not told to end.
  void expect_blame(const Failure& failure) {
    if (last_sent_ != EndSignal::none || (reports_ > 0 && expected_.known())) return;
    if (failure.ending.exit_code == 0) return;
    expected_.accuse(failure, first_stopped());
    trigger();
    react_to_a_failure();
  }

  /// Of the ranks that stand still.
  [[nodiscard]] std::optional<Failure> first_stopped() const {
    std::optional<Failure> first;
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      if (ranks_[i].stopped && (!first || ranks_[i].stopped_at < first->when))
        first = {static_cast<int>(i), ranks_[i].host, {128 + SIGSTOP, "", 0}, ranks_[i].stopped_at};
    }
    return first;
  }

  /// A job that has failed and can only stand still is ended at once.
  void check_standstill() const {
    const auto count = [&](bool SimulatedRank::* what) {
      return std::count_if(ranks_.begin(), ranks_.end(), [&](const auto& rank) { return rank.*what; });
    };
    const bool stands = count(&SimulatedRank::running) > 0 &&
                        count(&SimulatedRank::running) == count(&SimulatedRank::stopped);
    EXPECT_FALSE(stands && expected_.known() && last_sent_ == EndSignal::none);
  }

  void check_signal(EndSignal signal) {
    EXPECT_TRUE(anybody_left()) << "nobody is left who could hear it";
    EXPECT_GT(signal, last_sent_) << "each signal is stronger than the last one";
    if (signal == EndSignal::interrupt) {
      EXPECT_EQ(last_signal_, SIGINT);
    }
    if (signal == EndSignal::kill) {
      EXPECT_EQ(last_sent_, EndSignal::terminate);
    }
    const bool at_once = signalled_at_ == now_;
    if (last_sent_ != EndSignal::none && !at_once) {
      EXPECT_GE(now_, sent_at_ + policy_.grace);
    }
    last_sent_ = signal;
    sent_at_ = now_;
  }

  void check_status() {
    EXPECT_EQ(reports_, 1);
    EXPECT_FALSE(anybody_left());
    if (expected_failure_) {
      EXPECT_EQ(*status_, 74);
      EXPECT_EQ(state_.cause.failure().rank, expected_.failure().rank);
    } else if (expected_.known()) {
      EXPECT_EQ(*status_, expected_.failure().ending.exit_code);
      EXPECT_NE(*status_, 0);
    } else if (state_.cause.known()) {
      EXPECT_EQ(*status_, 128 + SIGSTOP) << "a rank that stands still for good is the only other cause";
    } else if (timed_out_) {
      EXPECT_EQ(*status_, 124);
    } else if (expected_signal_ != 0) {
      EXPECT_EQ(*status_, 128 + expected_signal_);
    } else {
      EXPECT_EQ(*status_, output_lost_ ? 1 : 0);
      EXPECT_EQ(last_sent_, EndSignal::none) << "ranks of a good job were told to end";
    }
  }

  std::mt19937 random_;
  TimePoint now_{};
  JobPolicy policy_;
  JobState state_{policy_};

  std::vector<SimulatedRank> ranks_;
  std::vector<TimePoint> hosts_lost_at_;
  std::multimap<TimePoint, int> signals_;  // of the user
  TimePoint ready_at_{};
  TimePoint reader_gone_at_{};
  TimePoint errors_read_at_ = TimePoint::max();
  TimePoint written_at_ = TimePoint::max();
  TimePoint abandoned_at_ = TimePoint::max();
  bool output_lost_ = false;

  RootCause expected_;
  int expected_signal_ = 0;
  bool timed_out_ = false;
  bool elastic_ = false;
  std::vector<Failure> losses_;  // of its last change
  bool change_over_ = false;
  bool expected_failure_ = false;
  std::optional<TimePoint> triggered_at_;
  std::optional<TimePoint> signalled_at_;
  int last_signal_ = 0;
  EndSignal last_sent_ = EndSignal::none;
  TimePoint sent_at_{};
  int reports_ = 0;
  std::optional<int> status_;
  std::set<Reason> reasons_;
};

TEST(WhatNext, KeepsItsPromisesInRandomJobs) {
  constexpr unsigned kSeeds = 2000;
  std::map<Reason, int> reasons;
  std::map<int, int> statuses;
  for (unsigned seed = 0; seed < kSeeds; ++seed) {
    SCOPED_TRACE(seed);
    Simulation job(seed);
    ASSERT_NO_FATAL_FAILURE(job.run());
    ASSERT_FALSE(HasFailure());
    for (const Reason reason : job.reasons()) ++reasons[reason];
    ++statuses[job.status()];
  }
  for (const Reason reason :
       {Reason::first_failure, Reason::standstill, Reason::hopeless_standstill, Reason::cannot_go_on,
        Reason::timed_out, Reason::signalled, Reason::reader_gone})
    EXPECT_GT(reasons[reason], 10) << static_cast<int>(reason) << " must happen in some of the jobs";
  for (const int status : {0, 1, 7, 74, 124, 128 + SIGINT, 128 + SIGTERM, 128 + SIGPIPE, 128 + SIGSTOP, 255})
    EXPECT_GT(statuses[status], 10) << status << " must be the status of some of the jobs";
}

}  // namespace
}  // namespace hora::hrun
