// SPDX-License-Identifier: Apache-2.0
#include "runner/elastic/generations.h"

#include <hora/status.h>

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

Generations::Generations(const std::vector<HostShare>& shares, const std::vector<int>& capacities,
                         const GenerationPolicy& policy, GenerationFacts facts, TimePoint start)
    : policy_(policy),
      processes_(shares),
      leader_(waits_for_all(policy.members, processes_.size())),
      scaling_(processes_, shares, capacities, policy.replacement, policy.members.max_members, policy.spares),
      orders_(processes_, leader_, policy, std::move(facts), start) {}

GenerationOrders Generations::hear(int rank, const MemberMessage& message, TimePoint now) {
  ElasticProcess& process = processes_.at(rank);
  leader_.hear_from(process.info.id, now);
  if (message.port != 0) process.port = message.port;  // where it listens for the next generation
  if (message.kind == MemberMessage::Kind::join && std::exchange(process.joined, true))
    return refuse_to_join(rank);
  if (message.kind == MemberMessage::Kind::leave && (ends_expected_ || !process.is_member)) {
    process.out = "";  // a process that hrun has told to end waits for no step
    return kill_at_once(rank);
  }
  if (message.kind == MemberMessage::Kind::step) return orders_.stepped(message.generation, now);
  process.asks_to_go = process.asks_to_go || message.kind == MemberMessage::Kind::leave;
  if (message.kind == MemberMessage::Kind::finish && !process.out)
    process.finished = process.was_member || !process.late;
  const ChangeCause cause = cause_of(rank, message);
  GenerationOrders orders =
      orders_.make(elastic::deliver(leader_, process.info, message, now), cause, now, now);
  if (message.kind == MemberMessage::Kind::join) end_if_it_cannot_begin(orders);
  if (message.kind == MemberMessage::Kind::leave && !processes_.any_member_stays()) {
    orders.lines.push_back(
        fmt::format("{} asks to leave, and stays, as no other rank could go on: a second signal ends it",
                    orders_.name(rank)));
  }
  if (process.finished && process.was_member && !std::exchange(finished_, true)) {
    // Processes that have not joined before have nothing to do.
    for (const int latecomer : processes_.let_latecomers_go()) orders.kills.push_back(latecomer);
  }
  if (orders.formed) adjust(now, orders);
  return orders;
}

GenerationOrders Generations::ended(int rank, const Ending& ending, bool common, TimePoint when,
                                    TimePoint now) {
  ElasticProcess& process = processes_.at(rank);
  process.gone = true;
  if (process.finished) return {};
  const ChangeCause cause{process.info.id,
                          fmt::format("{} {}", orders_.name_in_generation(rank), process.how(ending))};
  const bool over = leader_.phase() == Leader::Phase::over;
  const std::uint64_t generation = leader_.record().generation;
  const std::string text = fmt::format("{} {}", orders_.name(rank), process.how(ending));
  if (!over && process.is_member) orders_.changes().begin(cause.why, when).add(text);
  GenerationOrders orders = orders_.make(leader_.die(process.info.id, now), cause, when, now);
  // Without one that had left, the others go on, or have ended.
  begin_with_those_left(cause, now, orders);
  orders.goes_on = process.left_in_order() || (over ? !process.counts() : !cannot_begin());
  orders.was_member = process.counts() || common;
  if (orders.goes_on && !ends_expected_ && process.is_loss(ending.exit_code == 0))
    orders_.lost().add(rank, generation, when);
  end_if_it_cannot_begin(orders);
  const bool as_asked =
      process.left_in_order() && (ending.exit_code == 0 || finished_ || !process.was_member);
  if (!orders.goes_on) return orders;
  if (!as_asked && common && !orders.end) orders.end_job("most ranks have ended with the same error");
  if (!as_asked && process.late && !process.was_member)
    orders.lines.push_back(fmt::format("{} before it has joined the job", text));
  const std::string rests = scaling_.vacate(rank, as_asked, now);
  if (!rests.empty() && can_change() && !orders.end) orders.lines.push_back(rests);
  adjust(now, orders);
  return orders;
}

GenerationOrders Generations::lose_host(int host, const std::string& why, TimePoint now) {
  const bool over = leader_.phase() == Leader::Phase::over;
  const std::uint64_t generation = leader_.record().generation;
  const ElasticProcesses::Lost lost = processes_.lose_host(host);
  const TimePoint again = scaling_.lose_host(host, lost.ranks, now);
  const ChangeCause cause{lost.member, why};
  if (!over && lost.member != 0) orders_.changes().begin(why, now).add(why);
  GenerationOrders orders = orders_.make(leader_.lose_host(host, now), cause, now, now);
  begin_with_those_left(cause, now, orders);
  orders.was_member = lost.any_counts;
  orders.goes_on = !lost.any_counts || (!over && !cannot_begin());
  if (lost.member == 0 && !lost.ranks.empty() && can_change()) {
    const auto rest = std::chrono::duration<double>(again - now).count();
    orders.lines.push_back(fmt::format("{}; it is tried again in {:.3g} s", why, rest));
  }
  for (const int rank : lost.ranks) {
    if (orders.goes_on && !ends_expected_ && processes_.at(rank).is_loss(false))
      orders_.lost().add(rank, generation, now);
  }
  end_if_it_cannot_begin(orders);
  adjust(now, orders);
  return orders;
}

GenerationOrders Generations::resize(int ranks, TimePoint now) {
  const int least = policy_.members.min_members;
  const int hot_spares = policy_.members.hot_spares;
  const int most = policy_.members.max_members - hot_spares;
  if (ranks < least || ranks > most) {
    throw Error(
        Code::invalid_argument,
        fmt::format("the job can have {} to {} ranks (--min-np, --max-np), so not {}", least, most, ranks));
  }
  require_change();
  scaling_.set_size(ranks + hot_spares);
  GenerationOrders orders = orders_.make(leader_.resize(ranks + hot_spares, now), {}, now, now);
  adjust(now, orders);
  return orders;
}

GenerationOrders Generations::set_capacity(int host, int slots, TimePoint now) {
  scaling_.set_capacity(host, slots);
  GenerationOrders orders;
  adjust(now, orders);
  return orders;
}

void Generations::require_change() const {
  if (can_change()) return;
  throw Error(Code::unavailable, orders_.begun() == 0 ? "its ranks have not joined yet"
                                                      : "its training has ended, or it is just ending");
}

GenerationOrders Generations::tick(TimePoint now) {
  if (std::max(leader_.next(), catching_up_) < now - kLate) {
    catching_up_ = now + kLate;
    for (int rank = 0; rank < processes_.size(); ++rank) leader_.hear_from(processes_.at(rank).info.id, now);
  }
  if (now < catching_up_) return {};
  ChangeCause cause{0, "the ranks have not connected in time"};
  const auto actions = leader_.tick(now);
  if (const LeaderAction* kill = first_kill(actions)) {
    cause = {kill->to, fmt::format("{} was ended by hrun: {}",
                                   orders_.name_in_generation(processes_.rank_of(kill->to)), kill->why)};
  }
  GenerationOrders orders = orders_.make(actions, cause, now, now);
  if (orders.end) orders.end->status = kPausedTooLong;  // the only reason that comes with time
  kill_aside(now, orders);
  adjust(now, orders);
  return orders;
}

void Generations::stopped(int rank, TimePoint now) {
  processes_.at(rank).stopped = now;
  leader_.stop(processes_.at(rank).info.id, now);
}

void Generations::resumed(int rank, TimePoint now) {
  processes_.at(rank).stopped.reset();
  leader_.resume(processes_.at(rank).info.id, now);
}

TimePoint Generations::next_kill_aside() const {
  TimePoint next = TimePoint::max();
  if (policy_.members.stopped_after.count() == 0) return next;
  for (const int rank : processes_.stopped_aside())
    next = std::min(next, *processes_.at(rank).stopped + policy_.members.stopped_after);
  return next;
}

/// Ends stopped processes that the Leader does not know: those that have not joined, and those that are to
/// leave. The job would wait for them.
void Generations::kill_aside(TimePoint now, GenerationOrders& orders) {
  if (next_kill_aside() > now) return;
  for (const int rank : processes_.stopped_aside()) {
    if (*processes_.at(rank).stopped + policy_.members.stopped_after > now) continue;
    processes_.at(rank).killed = "it is stopped";
    orders.kills.push_back(rank);
  }
}

ChangeCause Generations::cause_of(int rank, const MemberMessage& message) const {
  if (message.kind == MemberMessage::Kind::suspect && leader_.record().rank_of(message.peer) >= 0) {
    return {message.peer, fmt::format("{} has lost the connection with {}", orders_.name_in_generation(rank),
                                      orders_.name_in_generation(processes_.rank_of(message.peer)))};
  }
  return {};
}

/// Starts the processes that are missing, and asks those to leave that are too many.
void Generations::adjust(TimePoint now, GenerationOrders& orders) {
  gave_up_ = gave_up_ || orders.end;
  if (!can_change()) return;
  for (const int rank : scaling_.surplus()) ask_to_go(rank, now, orders);
  for (const auto& placement : scaling_.take(now))
    orders.starts.push_back({placement, processes_.add(placement)});
}

void Generations::ask_to_go(int rank, TimePoint now, GenerationOrders& orders) {
  ElasticProcess& process = processes_.at(rank);
  process.going = true;
  if (process.joined) return orders.add(orders_.make(leader_.let_go(process.info.id, now), {}, now, now));
  process.out = "";  // it waits for no step
  orders.kills.push_back(rank);
}

/// Ranks that wait for others that never come are ended. If none has joined, their program may not use Hora.
void Generations::end_if_it_cannot_begin(GenerationOrders& orders) const {
  if (orders.end || !cannot_begin() || (!processes_.any_has_joined() && orders_.begun() == 0)) return;
  const std::string why = fmt::format("it needs {} ranks to begin, and {} are left",
                                      policy_.members.first_members, processes_.left());
  orders.end = {0, why};
  orders.lines.push_back(fmt::format("the job cannot begin: {}", why));
}

/// The first generation does not wait for ranks that have ended before it began, if enough are left.
void Generations::begin_with_those_left(const ChangeCause& cause, TimePoint now, GenerationOrders& orders) {
  if (orders_.begun() > 0 || cannot_begin()) return;
  orders.add(orders_.make(leader_.begin_with(processes_.left(), now), cause, now, now));
}

bool Generations::cannot_begin() const {
  return leader_.phase() == Leader::Phase::first && processes_.left() < policy_.members.first_members;
}

}  // namespace hora::hrun
