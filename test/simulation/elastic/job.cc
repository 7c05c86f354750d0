// SPDX-License-Identifier: Apache-2.0
#include "test/simulation/elastic/job.h"

#include <hora/status.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

namespace hora::elastic {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr int kSamples = 12;  // of a step
constexpr seconds kLongest{90};
constexpr milliseconds kBeat{250};

ElasticPolicy policy_of(const ElasticPlan& plan) {
  ElasticPolicy policy;
  policy.min_members = plan.least;
  policy.max_members = plan.hosts * plan.slots;
  policy.first_members = plan.first;
  return policy;
}

std::uint64_t mixed(std::uint64_t state, std::uint64_t step, const std::vector<int>& samples) {
  const auto mix = [&state](std::uint64_t value) {
    state = (state ^ value) * 0x9e3779b97f4a7c15U;
    state ^= state >> 29U;
  };
  mix(step);
  for (const int sample : samples) mix(static_cast<std::uint64_t>(sample) + 1);
  return state;
}

}  // namespace

ElasticJob::ElasticJob(const ElasticPlan& plan)
    : plan_(plan), random_(plan.seed), leader_(policy_of(plan)), most_(plan.hosts * plan.slots) {}

std::string ElasticJob::run() {
  for (int i = 0; i < plan_.first; ++i)
    start_process(i % plan_.hosts, i / plan_.hosts, up_to(milliseconds(500)));
  for (const auto& event : plan_.events) {
    events_.after(event.at, [this, event] {
      if (event.moment == Moment::none) {
        strike(event, nullptr);
      } else {
        armed_.push_back(event);
      }
    });
  }
  try {
    while (broken_.empty() && !over_ && events_.now() < begin_ + kLongest && events_.next()) {
    }
  } catch (const Error& error) {
    fail(error.what());
  }
  return broken_.empty() ? verdict() : broken_;
}

std::string ElasticJob::verdict() {
  if (static_cast<int>(repeated_.size()) > faults_)
    return fmt::format("steps were made again {} times, with {} faults", repeated_.size(), faults_);
  const auto left = alive();
  if (over_ || left.empty()) return "";
  const bool too_few = leader_.phase() == Leader::Phase::running && leader_.record().paused;
  const bool never_began = leader_.phase() == Leader::Phase::first;
  if (starting_ == 0 && (too_few || never_began)) {
    paused_ = true;
    return "";
  }
  return fmt::format("it has not ended {} s after the last fault, in phase {} of generation {}",
                     std::chrono::duration_cast<seconds>(events_.now() - calm_since_).count(),
                     static_cast<int>(leader_.phase()), leader_.record().generation);
}

// --- hrun ---

void ElasticJob::start_process(int host, int slot, Time after) {
  ++starting_;
  events_.after(after, [this, host, slot] {
    --starting_;
    if (over_ || !reachable(host)) return;
    MemberInfo info{.id = ++last_id_, .host = host, .slot = slot};
    for (const auto& [id, other] : processes_) {
      const bool same = other->info.host == host && other->info.slot == slot;
      if (same && other->alive) return;
      if (same && has(Bug::identity_is_used_again)) info.id = id;
    }
    note(fmt::format("process {} starts on host {} slot {}", info.id, host, slot));
    processes_[info.id] = std::make_unique<Process>(info);
    Process& process = *processes_[info.id];
    beat(process);
    send(process, {.kind = MemberMessage::Kind::join});
  });
}

void ElasticJob::lead(const Leader::Actions& actions) {
  using Kind = LeaderAction::Kind;
  for (const auto& action : actions) {
    switch (action.kind) {
      case Kind::record:
        check_record(action.record);
        send(action);
        break;
      case Kind::out:
        note(fmt::format("process {} is sent away: {}", action.to, action.why));
        send(action);
        break;
      case Kind::stop:
      case Kind::go:
      case Kind::plan_change: send(action); break;
      case Kind::kill: {
        note(fmt::format("hrun kills process {}: {}", action.to, action.why));
        const auto found = processes_.find(action.to);
        if (found == processes_.end() || !reachable(found->second->info.host)) break;
        if (!harmed_.contains(action.to)) fail(fmt::format("process {} is killed for nothing", action.to));
        events_.after(up_to(milliseconds(4)), [this, id = action.to] {
          if (processes_.at(id)->alive) kill(*processes_.at(id));
        });
        if (has(Bug::kill_is_taken_for_death)) {
          events_.after(microseconds(1), [this, id = action.to] { lead(leader_.die(id, events_.now())); });
        }
        break;
      }
      case Kind::end_job:
        note("the job ends: " + action.why);
        over_ = true;
        break;
    }
  }
  plan_tick();
}

void ElasticJob::plan_tick() {
  const TimePoint next = leader_.next();
  if (next >= tick_ || next == TimePoint::max() || has(Bug::hrun_never_looks)) return;
  tick_ = next;
  events_.at(next, [this, next] {
    if (tick_ == next) tick_ = TimePoint::max();
    lead(leader_.tick(events_.now()));
  });
}

/// Messages to a process arrive in their order, and so do those from it.
void ElasticJob::send(const LeaderAction& action) {
  if (!processes_.contains(action.to)) return;
  TimePoint& last = last_[{0, action.to}];
  last = std::max(last, events_.now() + up_to(milliseconds(2)));
  on(action.to, last - events_.now(), [this, bytes = encode(message_of(action))](Process& process) {
    if (reachable(process.info.host)) hear(process, decode_leader_message(bytes));
  });
}

void ElasticJob::hear(Process& process, const LeaderMessage& message) {
  using Kind = LeaderMessage::Kind;
  if (has(Bug::ignores_stop) && message.kind == Kind::stop) return;
  if (message.kind == Kind::plan_change && message.generation == process.machine.record().generation) {
    process.change_planned = true;
    if (has(Bug::planned_change_at_once)) act(process, process.machine.change_is_due());
  }
  act(process, deliver(process.machine, message));
}

void ElasticJob::send(const Process& from, const MemberMessage& message) {
  to_leader(from, [this, info = from.info, bytes = encode(message)] {
    return deliver(leader_, info, decode_member_message(bytes), events_.now());
  });
}

/// Everything that hrun hears of a process, from it or from its host.
void ElasticJob::to_leader(const Process& from, std::function<Leader::Actions()> what) {
  TimePoint& last = last_[{1, from.info.id}];
  last = std::max(last, events_.now() + up_to(milliseconds(2)));
  events_.at(last, [this, host = from.info.host, what = std::move(what)] {
    if (reachable(host) && !over_) lead(what());
  });
}

// --- processes ---

/// Later, unless the process has ended then; a frozen one does it when it goes on.
void ElasticJob::on(MemberId id, Time after, std::function<void(Process&)> what) {
  events_.after(after, [this, id, what = std::move(what)] {
    Process& process = *processes_.at(id);
    if (!process.alive) return;
    if (process.frozen) {
      process.waiting.push_back([&process, what] {
        if (process.alive) what(process);
      });
    } else {
      what(process);
    }
  });
}

void ElasticJob::beat(Process& process) {
  send(process, {.kind = MemberMessage::Kind::beat});
  on(process.info.id, kBeat, [this](Process& later) { beat(later); });
}

void ElasticJob::act(Process& process, const Member::Actions& actions) {
  using Kind = MemberAction::Kind;
  const MemberId id = process.info.id;
  for (const auto& action : actions) {
    switch (action.kind) {
      case Kind::suspect:
        note(fmt::format("process {} has lost {}", id, action.peer));
        if (has(Bug::closed_is_taken_for_death)) {
          to_leader(process, [this, peer = action.peer] { return leader_.die(peer, events_.now()); });
        } else {
          send(process, message_of(action));
        }
        break;
      case Kind::stop: stop_engine(process); break;
      case Kind::report:
        note(fmt::format("process {} reports of generation {}: voted {}, made {}{}", id,
                         action.report.generation, action.report.voted, action.report.committed,
                         action.report.has_state ? "" : ", no state"));
        send(process, message_of(action));
        reach(process, Moment::reported);
        break;
      case Kind::form: form(process); break;
      case Kind::tell_formed:
        send(process, message_of(action));
        reach(process, Moment::formed);
        if (has(Bug::starts_without_go) && process.alive)
          act(process, process.machine.hear_go(action.record.generation));
        break;
      case Kind::start:
        note(fmt::format("process {} starts in generation {}", id, action.record.generation));
        process.engine = true;
        reach(process, Moment::started);
        if (!process.alive) return;
        if (process.committed >= static_cast<std::uint64_t>(plan_.steps)) return end_process(process, true);
        if (!process.has_state) {
          const GenerationRecord& record = record_of(process);
          process.committed = process.voted = record.committed;
          process.parts = parts_of(process.info, record);
          if (process.parts == 0) copy_state(process);
        }
        begin_step(process);
        break;
      case Kind::end: end_process(process, false); break;
    }
    if (!process.alive) return;
  }
}

void ElasticJob::stop_engine(Process& process) {
  reach(process, Moment::stopping);
  if (!process.alive) return;
  on(process.info.id, up_to(milliseconds(20)), [this](Process& stopped) {
    if (stopped.machine.phase() != Member::Phase::stopping) return;
    if (!has(Bug::votes_after_report)) stopped.engine = false;
    Report report;
    report.voted = stopped.voted;
    report.committed = stopped.committed;
    report.has_state = stopped.has_state || (has(Bug::part_counts_as_state) && stopped.parts > 0);
    report.leaving = stopped.leaves;
    const bool takes_in = random_() % 16 != 0;
    if (!takes_in) closed_.emplace(stopped.generation, stopped.info.id);
    report.takes_in = takes_in || has(Bug::joins_at_any_time);
    report.unreachable.assign(stopped.unconnected.begin(), stopped.unconnected.end());
    if (has(Bug::report_invents_a_vote) && report.has_state) report.voted = report.committed + 1;
    if (has(Bug::report_forgets_a_vote)) report.voted = report.committed;
    act(stopped, stopped.machine.engine_stopped(report));
  });
}

/// Takes the record over: makes the step that it counts, if this process has not made it.
void ElasticJob::form(Process& process) {
  const GenerationRecord& record = process.machine.record();
  reach(process, Moment::record);
  if (!process.alive) return;
  const int rank = record.rank_of(process.info.id);
  const bool is_to_have_state = record.members[static_cast<std::size_t>(rank)].has_state;
  if (process.has_state && record.committed == process.committed + 1 && !has(Bug::resolution_is_ignored))
    make_step(process, record.committed);
  if (process.has_state && record.committed != process.committed) {
    fail(fmt::format("process {} has made {} steps, and generation {} begins after {}", process.info.id,
                     process.committed, record.generation, record.committed));
  }
  if (!process.has_state && is_to_have_state) process.has_state = true;  // the first of all
  if (process.contributed > record.committed) repeated_.insert(record.generation);
  process.voted = process.reduced = process.contributed = process.committed;
  process.generation = record.generation;
  process.engine = false;
  process.change_planned = process.change_with_vote = false;
  if (!has(Bug::old_votes_count)) process.votes.clear();
  for (const auto& [id, other] : processes_) {
    const bool runs = other->alive && other->engine && other->info.host == process.info.host;
    if (runs && other->generation < record.generation) {
      fail(fmt::format("process {} may still write into memory that generation {} uses", id,
                       record.generation));
    }
  }
  connect(process);
}

void ElasticJob::connect(Process& process) {
  on(process.info.id, up_to(milliseconds(5)), [this, generation = process.generation](Process& forming) {
    if (forming.generation != generation || forming.machine.phase() != Member::Phase::forming) return;
    forming.unconnected.clear();
    for (const auto& member : forming.machine.record().members) {
      const Process& peer = *processes_.at(member.id);
      const bool there = peer.alive && connected(forming.info.host, peer.info.host);
      if (!there) forming.unconnected.insert(member.id);
    }
    if (!forming.unconnected.empty()) return connect(forming);  // again
    act(forming, forming.machine.formed());
  });
}

/// How many steps count before the last part of the state comes: a large state comes in several.
int ElasticJob::parts_of(const MemberInfo& member, const GenerationRecord& record) {
  if (member.has_state || record.committed == 0) return 0;
  return static_cast<int>(member.id % 3);
}

/// The samples of a step that a member sums: those that have the state share them.
std::vector<int> ElasticJob::share(const Process& process, std::uint64_t step) const {
  const GenerationRecord& record = record_of(process);
  std::vector<MemberId> workers;
  for (const auto& member : record.members) {
    const auto parts = static_cast<std::uint64_t>(parts_of(member, record));
    if (member.has_state || step > record.committed + 1 + parts) workers.push_back(member.id);
  }
  const auto place = std::find(workers.begin(), workers.end(), process.info.id) - workers.begin();
  const auto count = static_cast<int>(workers.size());
  std::vector<int> samples;
  if (place == count) return samples;
  for (int i = kSamples * static_cast<int>(place) / count;
       i < kSamples * (static_cast<int>(place) + 1) / count; ++i)
    samples.push_back(i);
  return samples;
}

void ElasticJob::begin_step(Process& process) {
  if (!process.engine || record_of(process).paused) return;
  const std::uint64_t step = process.committed + 1;
  const Time computing = process.has_state || process.parts > 0 ? up_to(milliseconds(30)) : Time(0);
  on(process.info.id, computing, [this, step, generation = process.generation](Process& later) {
    if (later.engine && later.generation == generation && later.contributed < step) contribute(later, step);
  });
}

/// When all members have contributed, each gets the sum, at a time of its own.
void ElasticJob::contribute(Process& process, std::uint64_t step) {
  process.contributed = step;
  auto& shares = shares_[{process.generation, step}];
  shares[process.info.id] = share(process, step);
  const GenerationRecord& record = record_of(process);
  if (shares.size() < record.members.size()) return;
  std::vector<int> sum;
  for (const auto& [id, samples] : shares) sum.insert(sum.end(), samples.begin(), samples.end());
  std::sort(sum.begin(), sum.end());
  for (const auto& member : record.members) {
    on(member.id, up_to(milliseconds(3)), [this, step, sum, generation = process.generation](Process& each) {
      if (!each.engine || each.generation != generation) return;
      each.reduced = step;
      each.sum = sum;
      vote_if_ready(each);
    });
  }
}

void ElasticJob::vote_if_ready(Process& process) {
  const bool ready = process.has_state || process.parts > 0 || has(Bug::joiner_votes_at_once);
  const std::uint64_t step = process.reduced;
  if (!ready || !process.engine || process.voted >= step || step == 0) return;
  process.voted = step;
  const GenerationRecord record = record_of(process);
  const MemberId from = process.info.id;
  const bool changes = process.change_planned && record.members.front().id == from;
  if (has(Bug::state_moves_with_the_vote)) make_step(process, step);
  for (const auto& member : record.members) {
    if (!plan_.locked && member.id != record.members.front().id) continue;
    if (!connected(process.info.host, processes_.at(member.id)->info.host)) continue;
    on(member.id, up_to(milliseconds(1)),
       [this, step, from, changes, generation = record.generation](Process& each) {
         hear_vote(each, generation, step, from, changes);
       });
  }
  reach(process, Moment::voted);
}

void ElasticJob::hear_vote(Process& process, std::uint64_t generation, std::uint64_t step, MemberId from,
                           bool changes) {
  const bool old = !process.engine || process.generation != generation;
  if (old && !has(Bug::old_votes_count)) return;
  auto& votes = process.votes[step];
  votes.insert(from);
  process.change_with_vote = process.change_with_vote || changes;
  const GenerationRecord record = record_of(process);
  const bool all = std::all_of(record.members.begin(), record.members.end(), [&](const MemberInfo& one) {
    return votes.contains(one.id) || (has(Bug::decides_without_joiners) && !one.has_state);
  });
  if (!all || !process.engine) return;
  if (plan_.locked) return decide(process, record.generation, step, process.change_with_vote);
  for (const auto& member : record.members) {
    if (!connected(process.info.host, processes_.at(member.id)->info.host)) continue;
    on(member.id, up_to(milliseconds(1)),
       [this, step, generation = record.generation, ends = process.change_with_vote](Process& each) {
         decide(each, generation, step, ends);
       });
  }
}

void ElasticJob::decide(Process& process, std::uint64_t generation, std::uint64_t step, bool changes) {
  if (!process.engine || process.generation != generation || process.committed >= step) return;
  if (!process.has_state && process.parts == 0) return;  // only with a bug
  if (process.has_state) {
    make_step(process, step);
  } else {
    follow_step(process, step);
  }
  reach(process, Moment::decided);
  if (!process.alive) return;
  if (process.committed >= static_cast<std::uint64_t>(plan_.steps)) return end_process(process, true);
  if (changes) return act(process, process.machine.change_is_due());
  begin_step(process);
}

void ElasticJob::make_step(Process& process, std::uint64_t step) {
  const MemberId id = process.info.id;
  if (step == process.committed) return;
  if (step != process.committed + 1 || process.reduced != step)
    return fail(fmt::format("process {} makes step {} after {}, with the sum of step {}", id, step,
                            process.committed, process.reduced));
  for (int i = 0; i < kSamples; ++i) {
    if (static_cast<int>(process.sum.size()) != kSamples || process.sum[static_cast<std::size_t>(i)] != i)
      return fail(fmt::format("step {} has samples {}", step, process.sum));
  }
  const auto latest = records_.rbegin();
  if (latest->first > process.generation && latest->second.committed < step) {
    return fail(
        fmt::format("process {} makes step {} of generation {}, which does not count in generation {}", id,
                    step, process.generation, latest->first));
  }
  process.state = mixed(process.state, step, process.sum);
  process.committed = step;
  const auto known = steps_.try_emplace(step, process.state, process.generation).first->second;
  if (known.first != process.state)
    return fail(fmt::format("process {} has made step {} otherwise than others", id, step));
  if (known.second != process.generation)
    return fail(
        fmt::format("step {} is made in generations {} and {}", step, known.second, process.generation));
  note(fmt::format("process {} has made step {}", id, step));
}

/// A step counts while the process gets the state in parts.
void ElasticJob::follow_step(Process& process, std::uint64_t step) {
  process.committed = step;
  note(fmt::format("process {} follows step {}", process.info.id, step));
  if (--process.parts == 0) copy_state(process);
}

void ElasticJob::copy_state(Process& process) {
  reach(process, Moment::copying);
  if (!process.alive) return;
  on(process.info.id, up_to(milliseconds(200)), [this, generation = process.generation](Process& copying) {
    if (copying.engine && copying.generation == generation) take_state(copying);
  });
}

void ElasticJob::take_state(Process& process) {
  const GenerationRecord record = record_of(process);
  for (const auto& member : record.members) {
    const Process& source = *processes_.at(member.id);
    const bool there = source.alive && !source.frozen && source.generation == record.generation &&
                       connected(process.info.host, source.info.host) && member.id != process.info.id;
    if (!there || (!source.has_state && !has(Bug::joiner_is_a_source))) continue;
    if (!source.has_state)
      return fail(
          fmt::format("process {} takes the state from {}, which has none", process.info.id, member.id));
    if (source.committed + 1 == process.committed) continue;  // it has not heard yet that the step counts
    if (source.committed != process.committed) {
      return fail(fmt::format("process {} takes the state after step {}, and needs the one after {}",
                              process.info.id, source.committed, process.committed));
    }
    process.has_state = true;
    process.committed = process.voted = source.committed;
    process.state = source.state;
    note(fmt::format("process {} has the state after step {}", process.info.id, process.committed));
    return vote_if_ready(process);
  }
  copy_state(process);  // from another one, later
}

void ElasticJob::end_process(Process& process, bool well) {
  note(fmt::format("process {} ends", process.info.id));
  process.alive = process.engine = false;
  const MemberId id = process.info.id;
  if (well) {
    send(process, {.kind = MemberMessage::Kind::finish});
  } else {
    to_leader(process, [this, id] { return leader_.die(id, events_.now()); });
  }
  notice_loss(id, milliseconds(5));
}

// --- faults ---

void ElasticJob::strike(const PlannedEvent& event, Process* who) {
  const auto ids = alive();
  if (over_ || ids.empty()) return;
  Process& process =
      who != nullptr ? *who : *processes_.at(ids[static_cast<std::size_t>(event.subject) % ids.size()]);
  calm_since_ = events_.now();
  using Kind = PlannedEvent::Kind;
  switch (event.kind) {
    case Kind::kill: ++faults_; return kill(process);
    case Kind::freeze: ++faults_; return freeze(process, event);
    case Kind::cut: ++faults_; return cut(process.info.host, event.other % plan_.hosts);
    case Kind::lose_host: ++faults_; return lose_host(process.info.host);
    case Kind::leave:
      note(fmt::format("process {} is asked to leave", process.info.id));
      process.leaves = true;
      return send(process, {.kind = MemberMessage::Kind::leave});
    case Kind::join: return start_process(event.other % plan_.hosts, event.subject % plan_.slots, Time(0));
    case Kind::resize: return resize(std::max(plan_.least, 1 + event.other % (plan_.hosts * plan_.slots)));
  }
}

/// As hrun does it: the last members are asked to go.
void ElasticJob::resize(int most) {
  note(fmt::format("the job is to have {} members", most));
  most_ = most;
  lead(leader_.resize(most, events_.now()));
  const auto members = leader_.record().members;
  for (auto rank = static_cast<std::size_t>(most); rank < members.size(); ++rank)
    lead(leader_.let_go(members[rank].id, events_.now()));
}

void ElasticJob::reach(Process& process, Moment moment) {
  const auto found = std::find_if(armed_.begin(), armed_.end(),
                                  [moment](const PlannedEvent& one) { return one.moment == moment; });
  if (found == armed_.end()) return;
  const PlannedEvent event = *found;
  armed_.erase(found);
  strike(event, &process);
}

void ElasticJob::kill(Process& process) {
  note(fmt::format("process {} is killed", process.info.id));
  process.alive = process.engine = false;
  const MemberInfo info = process.info;
  if (reachable(info.host)) {
    TimePoint& last = last_[{1, info.id}];  // hrun reads what the process has sent before it looks at its end
    last = std::max(last, events_.now() + up_to(milliseconds(20)));
    events_.at(last, [this, info] {
      if (reachable(info.host) && !over_) lead(leader_.die(info.id, events_.now()));
    });
    if (plan_.replaces) start_process(info.host, info.slot, milliseconds(30) + up_to(seconds(2)));
  }
  notice_loss(info.id, milliseconds(20));
}

void ElasticJob::freeze(Process& process, const PlannedEvent& event) {
  const MemberId id = process.info.id;
  note(fmt::format("process {} stands still for {} ms", id,
                   std::chrono::duration_cast<milliseconds>(event.time).count()));
  process.frozen = true;
  harmed_.insert(id);
  if (event.seen) {
    to_leader(process, [this, id] {
      leader_.stop(id, events_.now());
      return Leader::Actions();
    });
  }
  events_.after(event.time, [this, id, seen = event.seen] {
    Process& again = *processes_.at(id);
    if (!again.alive || !again.frozen) return;
    note(fmt::format("process {} goes on", id));
    again.frozen = false;
    calm_since_ = events_.now();
    if (seen) {
      to_leader(again, [this, id] {
        leader_.resume(id, events_.now());
        return Leader::Actions();
      });
    }
    for (const auto& each : std::exchange(again.waiting, {})) each();
  });
}

void ElasticJob::cut(int one, int other) {
  if (one == other) return;
  note(fmt::format("hosts {} and {} are cut off from each other", one, other));
  cuts_.insert(std::minmax(one, other));
  for (const auto& [id, process] : processes_) {
    for (const auto& [peer, another] : processes_) {
      const bool broken = std::minmax(process->info.host, another->info.host) == std::minmax(one, other);
      if (!broken || !process->alive || !another->alive) continue;
      on(id, up_to(milliseconds(1200)),
         [this, peer = peer](Process& each) { act(each, each.machine.lose({peer})); });
    }
  }
}

void ElasticJob::lose_host(int host) {
  if (!reachable(host)) return;
  note(fmt::format("host {} is lost", host));
  lost_hosts_.insert(host);
  for (const auto& [id, process] : processes_) {
    if (process->info.host != host || !process->alive) continue;
    harmed_.insert(id);
    notice_loss(id, milliseconds(1200));
  }
  events_.after(seconds(1) + up_to(milliseconds(300)), [this, host] {
    if (!over_) lead(leader_.lose_host(host, events_.now()));
  });
  events_.after(seconds(4), [this, host] {  // its agent hears nothing of hrun
    for (const auto& [id, process] : processes_) {
      if (process->info.host == host && process->alive) kill(*process);
    }
  });
}

/// The others in its generation lose their connection with it, if they have one.
void ElasticJob::notice_loss(MemberId lost, Time most) {
  for (const auto& [id, process] : processes_) {
    if (id == lost || !process->alive) continue;
    on(id, up_to(std::chrono::duration_cast<microseconds>(most)),
       [this, lost](Process& each) { act(each, each.machine.lose({lost})); });
  }
}

// --- what is ---

std::vector<MemberId> ElasticJob::alive() const {
  std::vector<MemberId> ids;
  for (const auto& [id, process] : processes_) {
    if (process->alive) ids.push_back(id);
  }
  return ids;
}

bool ElasticJob::connected(int host, int other) const {
  if (host == other) return true;
  return reachable(host) && reachable(other) && !cuts_.contains(std::minmax(host, other));
}

const GenerationRecord& ElasticJob::record_of(const Process& process) const {
  return records_.at(process.generation);
}

ElasticJob::Time ElasticJob::up_to(microseconds most) {
  return microseconds(1 + static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(most.count())));
}

void ElasticJob::check_record(const GenerationRecord& record) {
  const auto [known, is_new] = records_.try_emplace(record.generation, record);
  if (!is_new && known->second != record) return fail("two records of one generation");
  if (!is_new) return;
  note(fmt::format("generation {}: {} members, after step {}{}", record.generation, record.members.size(),
                   record.committed, record.paused ? ", paused" : ""));
  const auto size = static_cast<int>(record.members.size());
  const auto is_new_member = [&](const MemberInfo& member) {
    const auto former = records_.find(record.generation - 1);
    return former != records_.end() && former->second.rank_of(member.id) < 0;
  };
  if (size > most_ && std::any_of(record.members.begin(), record.members.end(), is_new_member))
    fail("a process has joined that makes too many members");
  const bool closed = std::any_of(record.members.begin(), record.members.end(), [&](const auto& member) {
    return closed_.contains({record.generation - 1, member.id});
  });
  if (record.paused != (size < plan_.least && !closed))
    fail("the job pauses, or does not, with the wrong number of members");
  if (closed && std::any_of(record.members.begin(), record.members.end(), [&](const MemberInfo& member) {
        return records_.at(record.generation - 1).rank_of(member.id) < 0;
      }))
    fail("a process has joined while another one could not take it in");
  if (!steps_.empty() && record.committed < steps_.rbegin()->first) {
    fail(fmt::format("generation {} begins after step {}, and somebody has made step {}", record.generation,
                     record.committed, steps_.rbegin()->first));
  }
}

void ElasticJob::note(const std::string& what) {
  const auto time = std::chrono::duration<double, std::milli>(events_.now() - begin_).count();
  history_.push_back(fmt::format("{:10.3f} ms  {}", time, what));
}

void ElasticJob::fail(const std::string& what) {
  note("WRONG: " + what);
  if (broken_.empty()) broken_ = what;
}

}  // namespace hora::elastic
