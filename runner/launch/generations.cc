// SPDX-License-Identifier: Apache-2.0
#include "runner/launch/generations.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>

namespace hora::hrun {
namespace {

using elastic::Leader;
using elastic::LeaderAction;
using elastic::MemberId;
using elastic::MemberMessage;

constexpr std::chrono::seconds kLate{1};  // after which hrun must have stood still

/// The first generation has all processes that are started, so that no later one runs the program's first
/// lines while the others train.
elastic::ElasticPolicy waits_for_all(elastic::ElasticPolicy policy, int started) {
  policy.first_members = started;
  return policy;
}

/// Ends the job, with the exit code of the first rank that failed.
void end_job(const std::string& why, GenerationOrders& orders) {
  orders.end = {0, why};
  orders.lines.push_back(fmt::format("the job cannot go on: {}", why));
}

GenerationOrders refuse_to_join(int rank) {
  elastic::LeaderMessage out;
  out.kind = elastic::LeaderMessage::Kind::out;
  out.why = "it has joined this job before, and a process of an elastic job joins it once";
  GenerationOrders orders;
  orders.messages.push_back({rank, out});
  return orders;
}

/// Null: nobody is to be killed.
const LeaderAction* first_kill(const Leader::Actions& actions) {
  const auto found = std::find_if(actions.begin(), actions.end(), [](const LeaderAction& action) {
    return action.kind == LeaderAction::Kind::kill;
  });
  return found == actions.end() ? nullptr : &*found;
}

GenerationOrders kill_at_once(int rank) {
  GenerationOrders orders;
  orders.kills.push_back(rank);
  return orders;
}

}  // namespace

void LostRanks::add(int rank, std::uint64_t generation, TimePoint when) {
  losses_.push_back({rank, generation, when});
  missing_.insert(rank);
}

void LostRanks::replace(int rank) {
  if (missing_.erase(rank) > 0) ++replaced_;
}

std::string LostRanks::describe() const {
  if (losses_.empty()) return "";
  std::vector<std::string> each;
  for (const auto& loss : losses_) {
    each.push_back(fmt::format("rank {} after {:.1f} s (generation {})", loss.rank,
                               std::chrono::duration<double>(loss.when - start_).count(), loss.generation));
  }
  const std::string list = listed(std::move(each), ", ");
  const char* were = losses_.size() == 1 ? "was" : "were";
  if (replaced_ == 0) return fmt::format("{} of {} ranks {} lost: {}", losses_.size(), of_, were, list);
  return fmt::format("{} process{} {} lost, and {} replaced: {}", losses_.size(),
                     losses_.size() == 1 ? "" : "es", were, replaced_, list);
}

Generations::Generations(const std::vector<HostShare>& shares, const GenerationPolicy& policy,
                         GenerationFacts facts, TimePoint start)
    : policy_(policy),
      facts_(std::move(facts)),
      processes_(shares),
      leader_(waits_for_all(policy.members, processes_.size())),
      vacancies_(processes_.hosts(), policy.replacement),
      lost_(policy.members.max_members, start) {}

GenerationOrders Generations::hear(int rank, const MemberMessage& message, TimePoint now) {
  ElasticProcess& process = processes_.at(rank);
  leader_.hear_from(process.info.id, now);
  if (message.port != 0) process.port = message.port;  // where it listens for the next generation
  if (message.kind == MemberMessage::Kind::join && std::exchange(process.joined, true))
    return refuse_to_join(rank);
  if (message.kind == MemberMessage::Kind::leave && (ends_expected_ || !is_member(process))) {
    process.out = "";  // a process that hrun has told to end waits for no step
    return kill_at_once(rank);
  }
  if (message.kind == MemberMessage::Kind::finish && !process.out) process.finished = true;
  const Cause cause = cause_of(rank, message);
  GenerationOrders orders = carry_out(elastic::deliver(leader_, process.info, message, now), cause, now, now);
  if (message.kind == MemberMessage::Kind::join) end_if_it_cannot_begin(orders);
  if (process.finished && process.was_member && !std::exchange(finished_, true)) {
    // Processes that have not joined before have nothing to do.
    for (const int latecomer : processes_.let_latecomers_go()) orders.kills.push_back(latecomer);
  }
  return orders;
}

GenerationOrders Generations::ended(int rank, const Ending& ending, bool common, TimePoint when,
                                    TimePoint now) {
  ElasticProcess& process = processes_.at(rank);
  process.gone = true;
  if (process.finished) return {};
  const Cause cause{process.info.id, fmt::format("{} {}", name_in_generation(rank), process.how(ending))};
  const bool over = leader_.phase() == Leader::Phase::over;
  const std::uint64_t generation = leader_.record().generation;
  const std::string text = fmt::format("{} {}", name(rank), process.how(ending));
  if (!over && is_member(process)) change(cause, when).add(text);
  GenerationOrders orders = carry_out(leader_.die(process.info.id, now), cause, when, now);
  // Without one that had left, the others go on, or have ended.
  begin_with_those_left(cause, now, orders);
  orders.goes_on = process.left_in_order() || (!over && !cannot_begin());
  if (orders.goes_on && !ends_expected_ && process.is_loss(ending.exit_code == 0))
    lost_.add(rank, generation, when);
  end_if_it_cannot_begin(orders);
  const bool as_asked = process.left_in_order() && (ending.exit_code == 0 || finished_);
  if (!orders.goes_on || as_asked) return orders;
  if (common && !orders.end) end_job("most ranks have ended with the same error", orders);
  if (process.late && !process.was_member)
    orders.lines.push_back(fmt::format("{} before it has joined the job", text));
  make_vacant(rank, now, orders);
  return orders;
}

GenerationOrders Generations::lose_host(int host, const std::string& why, TimePoint now) {
  Cause cause{0, why};
  const bool over = leader_.phase() == Leader::Phase::over;
  const std::uint64_t generation = leader_.record().generation;
  const std::vector<int> ranks = processes_.lose_host(host);
  for (const int rank : ranks) {
    const ElasticProcess& process = processes_.at(rank);
    if (cause.lost == 0 && is_member(process)) cause.lost = process.info.id;
  }
  vacancies_.close_host(host);
  if (!over && cause.lost != 0) change(cause, now).add(why);
  GenerationOrders orders = carry_out(leader_.lose_host(host, now), cause, now, now);
  orders.goes_on = !over && !cannot_begin();
  for (const int rank : ranks) {
    if (orders.goes_on && !ends_expected_ && processes_.at(rank).is_loss(false))
      lost_.add(rank, generation, now);
  }
  end_if_it_cannot_begin(orders);
  return orders;
}

GenerationOrders Generations::tick(TimePoint now) {
  if (std::max(leader_.next(), catching_up_) < now - kLate) {
    catching_up_ = now + kLate;
    for (int rank = 0; rank < processes_.size(); ++rank) leader_.hear_from(processes_.at(rank).info.id, now);
  }
  if (now < catching_up_) return {};
  Cause cause{0, "the ranks have not connected in time"};
  const auto actions = leader_.tick(now);
  if (const LeaderAction* kill = first_kill(actions)) {
    cause = {kill->to, fmt::format("{} was ended by hrun: {}",
                                   name_in_generation(processes_.rank_of(kill->to)), kill->why)};
  }
  GenerationOrders orders = carry_out(actions, cause, now, now);
  if (orders.end) orders.end->status = kPausedTooLong;  // the only reason that comes with time
  replace(now, orders);
  return orders;
}

std::string Generations::name(int rank) const {
  return fmt::format("rank {} {}", rank, facts_.process(rank));
}

std::string Generations::name_in_generation(int rank) const {
  const int now = leader_.record().rank_of(processes_.at(rank).info.id);
  return fmt::format("rank {} {}", now >= 0 ? now : rank, facts_.process(rank));
}

Generations::Cause Generations::cause_of(int rank, const MemberMessage& message) const {
  if (message.kind == MemberMessage::Kind::suspect && leader_.record().rank_of(message.peer) >= 0) {
    return {message.peer, fmt::format("{} has lost the connection with {}", name_in_generation(rank),
                                      name_in_generation(processes_.rank_of(message.peer)))};
  }
  return {0, "the members change"};
}

ChangeReport& Generations::change(const Cause& cause, TimePoint when) {
  if (!change_) change_.emplace(when, cause.why);
  return *change_;
}

GenerationOrders Generations::carry_out(const Leader::Actions& actions, const Cause& cause, TimePoint when,
                                        TimePoint now) {
  using Kind = LeaderAction::Kind;
  GenerationOrders orders;
  for (const auto& action : actions) {
    switch (action.kind) {
      case Kind::kill:
        processes_.of(action.to).killed = action.why;
        orders.kills.push_back(processes_.rank_of(action.to));
        break;
      case Kind::end_job:
        orders.end = {kStateLost, action.why};
        orders.lines.push_back(fmt::format("the job cannot go on: {}", action.why));
        break;
      case Kind::stop: change(cause, when); break;
      case Kind::out: leave_out(action); break;
      case Kind::record:
        if (begun_ != action.record.generation) begin(action.record, now, orders);
        break;
      case Kind::go:
        if (!orders.formed) formed(now, orders);
        break;
      case Kind::plan_change: break;
    }
    if (action.kind != Kind::kill && action.kind != Kind::end_job) send(action, cause, orders);
  }
  return orders;
}

void Generations::send(const LeaderAction& action, const Cause& cause, GenerationOrders& orders) {
  elastic::LeaderMessage message = elastic::message_of(action);
  if (action.kind == LeaderAction::Kind::stop) {
    message.lost = cause.lost;
    message.why = cause.why;
  }
  if (action.kind == LeaderAction::Kind::record) {
    message.coordinator = coordinator_;
    message.secret = secret_;
  }
  orders.messages.push_back({processes_.rank_of(action.to), std::move(message)});
}

void Generations::leave_out(const LeaderAction& action) {
  processes_.of(action.to).out = action.why;
  if (leader_.phase() == Leader::Phase::over || !change_) return;
  const std::string rank = name(processes_.rank_of(action.to));
  change_->add(action.why.empty() ? fmt::format("{} has left", rank)
                                  : fmt::format("{} is left out: {}", rank, action.why));
}

/// The first of the actions that tell a record.
void Generations::begin(const elastic::GenerationRecord& record, TimePoint now, GenerationOrders& orders) {
  const bool is_first = std::exchange(begun_, record.generation) == 0;
  secret_ = facts_.secret();
  const ElasticProcess& first = processes_.of(record.members.front().id);
  coordinator_ = facts_.coordinator(first.info.host, first.port);
  const std::vector<int> joined = processes_.welcome(record);
  if (is_first) {
    orders.details.push_back(
        fmt::format("{} ranks have joined (generation {})", joined.size(), record.generation));
    return;
  }
  ChangeReport& report = change({0, "the members change"}, now);
  report.stopped(now);
  for (const int rank : joined) {
    lost_.replace(rank);
    report.add(fmt::format("{} has joined", name(rank)));
  }
  orders.lines.push_back(report.describe(record, policy_.members.min_members, policy_.members.max_members));
  end_if_it_changes_too_often(orders);
}

void Generations::end_if_it_changes_too_often(GenerationOrders& orders) {
  if (!policy_.reset_limit || begun_ - 1 <= *policy_.reset_limit) return;
  end_job(fmt::format("its ranks have changed {} times (--reset-limit {})", begun_ - 1, *policy_.reset_limit),
          orders);
}

/// A rank has no process any more.
void Generations::make_vacant(int rank, TimePoint now, GenerationOrders& orders) {
  if (begun_ == 0 || orders.end || is_ending()) return;
  const auto at = vacancies_.open(rank, now);
  if (at && *at > now) {
    orders.lines.push_back(
        fmt::format("rank {} fails again and again: its next process is started in {:.3g} s", rank,
                    std::chrono::duration<double>(*at - now).count()));
  }
  replace(now, orders);
}

/// Starts processes for the ranks for which it is time.
void Generations::replace(TimePoint now, GenerationOrders& orders) {
  if (is_ending()) return;
  for (const int rank : vacancies_.fill(now)) orders.starts.push_back({rank, processes_.replace(rank)});
}

void Generations::formed(TimePoint now, GenerationOrders& orders) {
  orders.formed = true;
  if (!change_) return;
  change_->formed(now);
  orders.details.push_back(change_->describe_times(begun_));
  last_change_ = std::exchange(change_, std::nullopt);
}

/// Ranks that wait for others that never come are ended. If none has joined, their program may not use Hora.
void Generations::end_if_it_cannot_begin(GenerationOrders& orders) const {
  if (orders.end || !cannot_begin() || (!processes_.any_has_joined() && begun_ == 0)) return;
  const std::string why = fmt::format("it needs {} ranks to begin, and {} are left",
                                      policy_.members.first_members, processes_.left());
  orders.end = {0, why};
  orders.lines.push_back(fmt::format("the job cannot begin: {}", why));
}

/// The first generation does not wait for ranks that have ended before it began, if enough are left.
void Generations::begin_with_those_left(const Cause& cause, TimePoint now, GenerationOrders& orders) {
  if (begun_ > 0 || cannot_begin()) return;
  GenerationOrders begin = carry_out(leader_.begin_with(processes_.left(), now), cause, now, now);
  std::move(begin.messages.begin(), begin.messages.end(), std::back_inserter(orders.messages));
  std::move(begin.details.begin(), begin.details.end(), std::back_inserter(orders.details));
}

bool Generations::cannot_begin() const {
  return leader_.phase() == Leader::Phase::first && processes_.left() < policy_.members.first_members;
}

}  // namespace hora::hrun
