// SPDX-License-Identifier: Apache-2.0
#include "core/elastic/leader.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace hora::elastic {
namespace {

constexpr const char* kEnded = "the training has ended";

}  // namespace

using Order = LeaderAction::Kind;

Leader::Actions Leader::join(const MemberInfo& process, TimePoint now) {
  Actions actions;
  if (phase_ == Phase::over) return {{.kind = Order::out, .to = process.id, .why = kEnded}};
  MemberInfo info = process;
  info.has_state = false;
  processes_.add(info, now);
  start_first(now, actions);
  plan_change_if_due(now, actions);
  return actions;
}

Leader::Actions Leader::begin_with(int members, TimePoint now) {
  Actions actions;
  policy_.first_members = members;
  start_first(now, actions);
  return actions;
}

Leader::Actions Leader::die(MemberId id, TimePoint now) {
  Actions actions;
  remove(id, now, actions);
  return actions;
}

Leader::Actions Leader::finish(MemberId id, TimePoint now) {
  Actions actions;
  if (!processes_.remove(id) || phase_ == Phase::over) return actions;
  finished_ = true;
  if (living().empty()) {
    finish_all(actions);
  } else {
    if (phase_ == Phase::forming) end_generation(now, actions);  // the others would wait for it
    decide_if_complete(now, actions);
  }
  return actions;
}

Leader::Actions Leader::lose_host(int host, TimePoint now) {
  Actions actions;
  for (const MemberId id : processes_.on_host(host)) remove(id, now, actions);
  return actions;
}

void Leader::stop(MemberId id, TimePoint now) {
  if (Process* process = processes_.find(id)) process->stopped = now;
}

void Leader::resume(MemberId id, TimePoint now) {
  if (Process* process = processes_.find(id)) process->stopped.reset();
  hear_from(id, now);
}

void Leader::hear_from(MemberId id, TimePoint now) {
  if (Process* process = processes_.find(id)) process->heard = now;
}

Leader::Actions Leader::suspect(MemberId by, MemberId peer, TimePoint now) {
  Actions actions;
  hear_from(by, now);
  if (is_member(by) && is_member(peer) && processes_.contains(by)) end_generation(now, actions);
  return actions;
}

Leader::Actions Leader::report(const Report& report, TimePoint now) {
  Actions actions;
  hear_from(report.member, now);
  Process* process = processes_.find(report.member);
  if (process == nullptr || report.generation != record_.generation || !is_member(report.member))
    return actions;
  process->report = report;
  if (report.leaving) process->goes = true;
  end_generation(now, actions);
  return actions;
}

Leader::Actions Leader::formed(MemberId id, std::uint64_t generation, TimePoint now) {
  Actions actions;
  hear_from(id, now);
  if (phase_ != Phase::forming || generation != record_.generation || !is_member(id)) return actions;
  processes_.at(id).formed = true;
  const auto members = living();
  if (!std::all_of(members.begin(), members.end(),
                   [this](MemberId one) { return processes_.at(one).formed; }))
    return actions;
  phase_ = Phase::running;
  ran_ = !record_.paused;
  deadline_ = TimePoint::max();
  for (const MemberId one : members)
    actions.push_back({.kind = Order::go, .to = one, .generation = record_.generation});
  plan_change_if_due(now, actions);
  return actions;
}

Leader::Actions Leader::let_go(MemberId id, TimePoint now) {
  Actions actions;
  Process* process = processes_.find(id);
  if (process == nullptr) return actions;
  process->goes = true;
  if (!is_member(id)) {
    send_away(id, "", actions);
  } else {
    plan_change_if_due(now, actions);
  }
  return actions;
}

Leader::Actions Leader::resize(int most, TimePoint now) {
  Actions actions;
  policy_.max_members = most;
  plan_change_if_due(now, actions);
  return actions;
}

Leader::Actions Leader::tick(TimePoint now) {
  Actions actions;
  if (phase_ == Phase::over) return actions;
  bool ended_member = false;
  for (auto& [id, process] : processes_) {
    if (process.killed || now < process.silent_at(policy_)) continue;
    kill(process, process.stopped ? "it is stopped" : "it gives no sign of life", actions);
    ended_member = ended_member || is_member(id);
  }
  if (ended_member) end_generation(now, actions);
  if (now >= pause_deadline_) {
    end_job(fmt::format("it has had fewer than {} ranks for {} s", policy_.min_members,
                        std::chrono::duration<double>(policy_.pause_timeout).count()),
            actions);
    return actions;
  }
  if (now < deadline_) return actions;
  deadline_ = TimePoint::max();
  if (phase_ == Phase::forming) {
    end_generation(now, actions);
  } else if (phase_ == Phase::stopping) {
    for (const MemberId id : living()) {
      Process& process = processes_.at(id);
      if (process.report || process.silent_at(policy_) == TimePoint::max()) continue;
      kill(process, "it has not stopped its operations in time", actions);
    }
  }
  return actions;
}

TimePoint Leader::next() const {
  if (phase_ == Phase::over) return TimePoint::max();
  return std::min({deadline_, pause_deadline_, processes_.first_silent_at(policy_)});
}

/// The members that have not died, by rank.
std::vector<MemberId> Leader::living() const { return processes_.members_of(record_); }

void Leader::remove(MemberId id, TimePoint now, Actions& actions) {
  if (!processes_.remove(id) || !is_member(id) || phase_ == Phase::over) return;
  lost_any_ = true;
  end_generation(now, actions);
}

/// Ends the generation: tells its members to stop, if none has done so, and makes the next one when all have.
void Leader::end_generation(TimePoint now, Actions& actions) {
  if (phase_ == Phase::running || phase_ == Phase::forming) {
    phase_ = Phase::stopping;
    deadline_ = now + policy_.stop_timeout;
    for (const MemberId id : living()) {
      if (!processes_.at(id).report)
        actions.push_back({.kind = Order::stop, .to = id, .generation = record_.generation});
    }
  }
  decide_if_complete(now, actions);
}

void Leader::decide_if_complete(TimePoint now, Actions& actions) {
  if (phase_ != Phase::stopping) return;
  const auto members = living();
  const bool complete = std::all_of(members.begin(), members.end(), [this](MemberId id) {
    const Process& process = processes_.at(id);
    return process.report && !process.killed;
  });
  if (complete) decide(now, actions);
}

void Leader::decide(TimePoint now, Actions& actions) {
  EndOfGeneration end{.record = record_,
                      .candidates = processes_.candidates(record_),
                      .lost_any = lost_any_,
                      .made_steps = ran_,
                      .least = policy_.min_members,
                      .most = policy_.max_members,
                      .hot_spares = policy_.hot_spares};
  for (const MemberId id : living()) {
    const Process& process = processes_.at(id);
    end.reports.push_back(*process.report);
    if (process.goes) end.leaving.insert(id);
  }
  const NextGeneration next = choose_next(end);
  for (const auto& [id, why] : next.out) send_away(id, why, actions);
  if (!next.state_is_lost) return begin(next.record, now, actions);
  if (finished_) return finish_all(actions);
  end_job("the state of the training is lost: no process that has it is left", actions);
}

void Leader::end_job(const std::string& why, Actions& actions) {
  phase_ = Phase::over;
  actions.push_back({.kind = Order::end_job, .why = why});
}

void Leader::begin(const GenerationRecord& next, TimePoint now, Actions& actions) {
  record_ = next;
  planned_ = lost_any_ = ran_ = false;
  if (!record_.paused) {
    pause_deadline_ = TimePoint::max();
  } else if (pause_deadline_ == TimePoint::max()) {
    pause_deadline_ = now + policy_.pause_timeout;
  }
  phase_ =
      record_.members.empty() ? Phase::first : Phase::forming;  // nothing was trained: others may still come
  deadline_ = record_.members.empty() ? TimePoint::max() : now + policy_.form_timeout;
  for (const auto& member : record_.members) {
    Process& process = processes_.at(member.id);
    process.report.reset();
    process.formed = false;
    actions.push_back({.kind = Order::record, .to = member.id, .record = record_});
  }
}

void Leader::start_first(TimePoint now, Actions& actions) {
  if (phase_ == Phase::first &&
      static_cast<int>(processes_.candidates(record_).size()) >= policy_.first_members)
    decide(now, actions);
}

/// Members come and go with a step that counts, so that no work is lost. A job that pauses makes no steps.
void Leader::plan_change_if_due(TimePoint now, Actions& actions) {
  if (phase_ != Phase::running || planned_) return;
  const auto members = living();
  const auto size = static_cast<int>(members.size());
  const bool grows = size < policy_.max_members && !processes_.candidates(record_).empty();
  const bool pauses = size < policy_.min_members && !record_.paused;
  const int spares = hot_spares_of(size, policy_.max_members, policy_.hot_spares);
  const bool shares_anew = spares != record_.hot_spares && !finished_;
  if (!grows && !pauses && !shares_anew && !processes_.can_let_go(record_)) return;
  if (record_.paused) return end_generation(now, actions);
  planned_ = true;
  actions.push_back(
      {.kind = Order::plan_change, .to = record_.members.front().id, .generation = record_.generation});
}

void Leader::send_away(MemberId id, const std::string& why, Actions& actions) {
  actions.push_back({.kind = Order::out, .to = id, .generation = record_.generation, .why = why});
  processes_.remove(id);
}

void Leader::kill(Process& process, const std::string& why, Actions& actions) {
  process.killed = true;
  actions.push_back({.kind = Order::kill, .to = process.info.id, .why = why});
}

void Leader::finish_all(Actions& actions) {
  phase_ = Phase::over;
  while (!processes_.empty()) send_away(processes_.begin()->first, kEnded, actions);
}

}  // namespace hora::elastic
