// SPDX-License-Identifier: Apache-2.0
#include "runner/elastic/leader_orders.h"

#include <fmt/format.h>

#include <utility>

namespace hora::hrun {

using elastic::LeaderAction;

std::string LeaderOrders::name(int rank) const {
  return fmt::format("rank {} {}", rank, facts_.process(rank));
}

std::string LeaderOrders::name_in_generation(int rank) const {
  const int now = leader_.record().rank_of(processes_.at(rank).info.id);
  return fmt::format("rank {} {}", now >= 0 ? now : rank, facts_.process(rank));
}

GenerationOrders LeaderOrders::make(const Leader::Actions& actions, const ChangeCause& cause, TimePoint when,
                                    TimePoint now) {
  using Kind = LeaderAction::Kind;
  GenerationOrders orders;
  for (const auto& action : actions) {
    switch (action.kind) {
      case Kind::kill:
        processes_.of(action.to).killed = action.why;
        orders.kills.push_back(processes_.rank_of(action.to));
        break;
      case Kind::end_job: orders.end_job(action.why, kStateLost); break;
      case Kind::stop: changes_.begin(cause.why, when); break;
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

void LeaderOrders::send(const LeaderAction& action, const ChangeCause& cause, GenerationOrders& orders) {
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

void LeaderOrders::leave_out(const LeaderAction& action) {
  ElasticProcess& process = processes_.of(action.to);
  if (!process.out) process.out = action.why;  // else it was told so already
  ChangeReport* change = changes_.under_way();
  if (leader_.phase() == Leader::Phase::over || change == nullptr) return;
  const std::string rank = name(processes_.rank_of(action.to));
  if (!action.why.empty()) return change->add(fmt::format("{} is left out: {}", rank, action.why));
  const bool as_asked = process.going || process.asks_to_go;
  change->add(fmt::format("{} {}", rank, as_asked ? "has left" : "ends because its program has failed"));
}

/// The first of the actions that tell a record.
void LeaderOrders::begin(const elastic::GenerationRecord& record, TimePoint now, GenerationOrders& orders) {
  const bool is_first = std::exchange(begun_, record.generation) == 0;
  secret_ = facts_.secret();
  const ElasticProcess& first = processes_.of(record.members.front().id);
  coordinator_ = facts_.coordinator(first.info.host, first.port);
  const std::vector<int> joined = processes_.welcome(record);
  orders.joined = joined;
  if (is_first) {
    orders.details.push_back(
        fmt::format("{} ranks have joined (generation {})", joined.size(), record.generation));
    return;
  }
  ChangeReport& report = changes_.begin(kMembersChange, now);
  report.stopped(now);
  for (const int rank : joined) {
    lost_.replace(rank);
    report.add(fmt::format("{} has joined", name(rank)));
  }
  orders.lines.push_back(
      report.describe(record, policy_.members.min_members, leader_.most() - policy_.members.hot_spares));
  end_if_it_changes_too_often(orders);
}

void LeaderOrders::end_if_it_changes_too_often(GenerationOrders& orders) {
  if (!policy_.reset_limit || begun_ - 1 <= *policy_.reset_limit) return;
  orders.end_job(
      fmt::format("its ranks have changed {} times (--reset-limit {})", begun_ - 1, *policy_.reset_limit));
}

GenerationOrders LeaderOrders::stepped(std::uint64_t generation, TimePoint now) {
  GenerationOrders orders;
  if (changes_.stepped(generation, now)) orders.details.push_back(changes_.last()->describe_step());
  return orders;
}

void LeaderOrders::formed(TimePoint now, GenerationOrders& orders) {
  orders.formed = true;
  if (changes_.under_way() == nullptr) return;
  changes_.end(now);
  orders.details.push_back(changes_.last()->describe_times(begun_));
}

}  // namespace hora::hrun
