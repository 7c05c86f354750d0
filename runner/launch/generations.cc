// SPDX-License-Identifier: Apache-2.0
#include "runner/launch/generations.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace hora::hrun {
namespace {

using elastic::Leader;
using elastic::LeaderAction;
using elastic::MemberId;
using elastic::MemberMessage;

constexpr std::size_t kMostNamed = 8;     // losses, in one line
constexpr std::chrono::seconds kLate{1};  // after which hrun must have stood still

double milliseconds_of(Clock::duration time) {
  return std::chrono::duration<double, std::milli>(time).count();
}

/// The texts, separated by `mark`; of many the first ones, and how many more there are.
std::string listed(std::vector<std::string> texts, const char* mark) {
  if (texts.size() > kMostNamed) {
    const std::size_t more = texts.size() - kMostNamed;
    texts.resize(kMostNamed);
    texts.push_back(fmt::format("{} more", more));
  }
  return fmt::format("{}", fmt::join(texts, mark));
}

}  // namespace

void LostRanks::add(int rank, std::uint64_t generation, TimePoint when) {
  losses_.push_back({rank, generation, when});
}

std::vector<int> LostRanks::ranks() const {
  std::vector<int> ranks;
  for (const auto& loss : losses_) ranks.push_back(loss.rank);
  return ranks;
}

std::string LostRanks::describe() const {
  if (losses_.empty()) return "";
  std::vector<std::string> each;
  for (const auto& loss : losses_) {
    each.push_back(fmt::format("rank {} after {:.1f} s (generation {})", loss.rank,
                               std::chrono::duration<double>(loss.when - start_).count(), loss.generation));
  }
  return fmt::format("{} of {} ranks {} lost: {}", losses_.size(), of_, losses_.size() == 1 ? "was" : "were",
                     listed(std::move(each), ", "));
}

Generations::Generations(const std::vector<HostShare>& shares, const elastic::ElasticPolicy& policy,
                         GenerationFacts facts, TimePoint start)
    : policy_(policy), facts_(std::move(facts)), leader_(policy), lost_(policy.first_members, start) {
  for (const auto& share : shares) {
    for (const auto& placement : share.placements) {
      Process& process = processes_.emplace_back();
      process.info.id = first_member(placement.rank);
      process.info.host = placement.host;
      process.info.slot = placement.local_rank;
    }
  }
}

GenerationOrders Generations::hear(int rank, const MemberMessage& message, TimePoint now) {
  Process& process = processes_[static_cast<std::size_t>(rank)];
  leader_.hear_from(process.info.id, now);
  if (message.port != 0) process.port = message.port;  // where it listens for the next generation
  if (message.kind == MemberMessage::Kind::join && std::exchange(process.joined, true)) {
    GenerationOrders refusal;
    elastic::LeaderMessage out;
    out.kind = elastic::LeaderMessage::Kind::out;
    out.why = "it has joined this job before, and a process of an elastic job joins it once";
    refusal.messages.push_back({rank, out});
    return refusal;
  }
  if (message.kind == MemberMessage::Kind::finish && !process.out) process.finished = true;
  const Cause cause = cause_of(rank, message);
  GenerationOrders orders = carry_out(elastic::deliver(leader_, process.info, message, now), cause, now, now);
  if (message.kind == MemberMessage::Kind::join) end_if_it_cannot_begin(orders);
  return orders;
}

GenerationOrders Generations::ended(int rank, const Ending& ending, TimePoint when, TimePoint now) {
  Process& process = processes_[static_cast<std::size_t>(rank)];
  process.gone = true;
  if (process.finished) return {};
  const Cause cause{process.info.id, fmt::format("{} {}", name_in_generation(rank), how(rank, ending))};
  const bool over = leader_.phase() == Leader::Phase::over;
  const std::uint64_t generation = leader_.record().generation;
  if (!over && leader_.record().rank_of(process.info.id) >= 0)
    change(cause, when).losses.push_back(fmt::format("{} {}", name(rank), how(rank, ending)));
  GenerationOrders orders = carry_out(leader_.die(process.info.id, now), cause, when, now);
  // Without one that had left, the others go on, or have ended.
  orders.goes_on = process.left_in_order() || (!over && !cannot_begin());
  if (orders.goes_on) count_loss(rank, ending.exit_code == 0, generation, when);
  end_if_it_cannot_begin(orders);
  return orders;
}

GenerationOrders Generations::lose_host(int host, const std::string& why, TimePoint now) {
  Cause cause{0, why};
  const bool over = leader_.phase() == Leader::Phase::over;
  const std::uint64_t generation = leader_.record().generation;
  std::vector<int> ranks;
  for (std::size_t i = 0; i < processes_.size(); ++i) {
    Process& process = processes_[i];
    if (process.info.host != host || std::exchange(process.gone, true) || process.finished) continue;
    ranks.push_back(static_cast<int>(i));
    if (cause.lost == 0 && leader_.record().rank_of(process.info.id) >= 0) cause.lost = process.info.id;
  }
  if (!over && cause.lost != 0) change(cause, now).losses.push_back(why);
  GenerationOrders orders = carry_out(leader_.lose_host(host, now), cause, now, now);
  orders.goes_on = !over && !cannot_begin();
  for (const int rank : ranks) {
    if (orders.goes_on) count_loss(rank, false, generation, now);
  }
  end_if_it_cannot_begin(orders);
  return orders;
}

GenerationOrders Generations::tick(TimePoint now) {
  if (next() < now - kLate) {
    catching_up_ = now + kLate;
    for (const auto& process : processes_) leader_.hear_from(process.info.id, now);
  }
  if (now < catching_up_) return {};
  Cause cause{0, "the ranks have not connected in time"};
  const auto actions = leader_.tick(now);
  const auto kill = std::find_if(actions.begin(), actions.end(), [](const LeaderAction& action) {
    return action.kind == LeaderAction::Kind::kill;
  });
  if (kill != actions.end()) {
    cause = {kill->to, fmt::format("{} was ended by hrun: {}",
                                   name_in_generation(static_cast<int>(rank_of(kill->to))), kill->why)};
  }
  GenerationOrders orders = carry_out(actions, cause, now, now);
  if (orders.end) orders.end->status = kPausedTooLong;  // the only reason that comes with time
  return orders;
}

std::string Generations::how(int rank, const Ending& ending) const {
  const std::string& why = processes_[static_cast<std::size_t>(rank)].killed;
  return why.empty() ? ending.how : fmt::format("was ended by hrun: {}", why);
}

std::string Generations::name(int rank) const {
  return fmt::format("rank {} {}", rank, facts_.process(rank));
}

std::string Generations::name_in_generation(int rank) const {
  const int now = leader_.record().rank_of(first_member(rank));
  return fmt::format("rank {} {}", now >= 0 ? now : rank, facts_.process(rank));
}

Generations::Cause Generations::cause_of(int rank, const MemberMessage& message) const {
  if (message.kind == MemberMessage::Kind::suspect && leader_.record().rank_of(message.peer) >= 0) {
    return {message.peer, fmt::format("{} has lost the connection with {}", name_in_generation(rank),
                                      name_in_generation(static_cast<int>(rank_of(message.peer))))};
  }
  return {0, "the members change"};
}

Generations::Change& Generations::change(const Cause& cause, TimePoint when) {
  if (!change_) change_ = Change{when, when, cause.why};
  return *change_;
}

void Generations::count_loss(int rank, bool ends_well, std::uint64_t generation, TimePoint when) {
  const Process& process = processes_[static_cast<std::size_t>(rank)];
  const bool is_loss = !process.left_in_order() || !ends_well;
  if (is_loss && !ends_expected_) lost_.add(rank, generation, when);
}

GenerationOrders Generations::carry_out(const Leader::Actions& actions, const Cause& cause, TimePoint when,
                                        TimePoint now) {
  using Kind = LeaderAction::Kind;
  GenerationOrders orders;
  for (const auto& action : actions) {
    switch (action.kind) {
      case Kind::kill:
        process_of(action.to).killed = action.why;
        orders.kills.push_back(static_cast<int>(rank_of(action.to)));
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
  orders.messages.push_back({static_cast<int>(rank_of(action.to)), std::move(message)});
}

void Generations::leave_out(const LeaderAction& action) {
  process_of(action.to).out = action.why;
  if (leader_.phase() == Leader::Phase::over || !change_) return;
  const std::string rank = name(static_cast<int>(rank_of(action.to)));
  change_->losses.push_back(action.why.empty() ? fmt::format("{} has left", rank)
                                               : fmt::format("{} is left out: {}", rank, action.why));
}

/// The first of the actions that tell a record.
void Generations::begin(const elastic::GenerationRecord& record, TimePoint now, GenerationOrders& orders) {
  begun_ = record.generation;
  secret_ = facts_.secret();
  const Process& first = process_of(record.members.front().id);
  coordinator_ = facts_.coordinator(first.info.host, first.port);
  const std::size_t count = record.members.size();
  if (!change_) {
    orders.details.push_back(fmt::format("{} ranks have joined (generation {})", count, record.generation));
    return;
  }
  change_->stopped = now;
  const auto losses = std::exchange(change_->losses, {});
  const std::string why = losses.empty() ? change_->why : listed(losses, "; ");
  const std::string needs = record.paused ? fmt::format(", as it needs {}", policy_.min_members) : "";
  orders.lines.push_back(fmt::format("{}; the job {} with {} of {} ranks{} (generation {})", why,
                                     record.paused ? "pauses" : "goes on", count, policy_.max_members, needs,
                                     record.generation));
}

void Generations::formed(TimePoint now, GenerationOrders& orders) {
  orders.formed = true;
  if (!change_) return;
  orders.details.push_back(fmt::format(
      "generation {}: its members stopped {:.1f} ms after the change was noticed, and were connected {:.1f} "
      "ms later",
      begun_, milliseconds_of(change_->stopped - change_->noticed), milliseconds_of(now - change_->stopped)));
  change_.reset();
}

/// Ranks that wait for others that never come are ended. If none has joined, their program may not use Hora.
void Generations::end_if_it_cannot_begin(GenerationOrders& orders) const {
  const bool waits = std::any_of(processes_.begin(), processes_.end(), [](const Process& one) {
    return one.joined && !one.gone && !one.finished && !one.out;
  });
  if (orders.end || !cannot_begin() || (!waits && begun_ == 0)) return;
  const std::string why =
      fmt::format("it needs {} ranks to begin, and {} are left", policy_.first_members, left());
  orders.end = {0, why};
  orders.lines.push_back(fmt::format("the job cannot begin: {}", why));
}

int Generations::left() const {
  return static_cast<int>(std::count_if(processes_.begin(), processes_.end(), [](const Process& one) {
    return !one.gone && !one.finished && !one.out;
  }));
}

bool Generations::cannot_begin() const {
  return leader_.phase() == Leader::Phase::first && left() < policy_.first_members;
}

}  // namespace hora::hrun
