// SPDX-License-Identifier: Apache-2.0
#include "core/elastic/next_generation.h"

#include <algorithm>
#include <map>

namespace hora::elastic {
namespace {

const MemberInfo& info_of(const GenerationRecord& record, MemberId id) {
  return record.members[static_cast<std::size_t>(record.rank_of(id))];
}

/// Pairs of members that live, of which the first cannot reach the second.
std::vector<std::pair<MemberId, MemberId>> gaps_of(const std::vector<Report>& reports) {
  std::vector<std::pair<MemberId, MemberId>> gaps;
  for (const auto& report : reports) {
    for (const MemberId peer : report.unreachable) {
      const bool lives = std::any_of(reports.begin(), reports.end(),
                                     [peer](const Report& other) { return other.member == peer; });
      if (lives) gaps.emplace_back(report.member, peer);
    }
  }
  return gaps;
}

bool any_state(const std::vector<Report>& reports) {
  return std::any_of(reports.begin(), reports.end(), [](const Report& one) { return one.has_state; });
}

/// The first member that was one before, or the first one if none was.
MemberInfo& first_that_stays(GenerationRecord& record, const std::vector<Report>& stay) {
  const auto stays = [&](const MemberInfo& member) {
    return std::any_of(stay.begin(), stay.end(),
                       [&](const Report& report) { return report.member == member.id; });
  };
  const auto found = std::find_if(record.members.begin(), record.members.end(), stays);
  return found != record.members.end() ? *found : record.members.front();
}

}  // namespace

std::set<MemberId> cut_off(const GenerationRecord& record, const std::vector<Report>& reports) {
  std::set<MemberId> out;
  const auto gaps = gaps_of(reports);
  const auto host = [&](MemberId id) { return info_of(record, id).host; };
  while (true) {
    std::map<int, int> counts;  // gaps of each host
    for (const auto& [one, other] : gaps) {
      if (out.contains(one) || out.contains(other)) continue;
      if (host(one) == host(other)) {
        out.insert(record.rank_of(one) > record.rank_of(other) ? one : other);
      } else {
        ++counts[host(one)];
        ++counts[host(other)];
      }
    }
    if (counts.empty()) return out;
    int worst = -1;
    for (const auto& report : reports) {  // by rank, so of equal ones the last host counts
      const auto found = counts.find(host(report.member));
      if (found != counts.end() && (worst < 0 || found->second >= counts.at(worst))) worst = found->first;
    }
    for (const auto& report : reports) {
      if (host(report.member) == worst) out.insert(report.member);
    }
  }
}

NextGeneration choose_next(const EndOfGeneration& end) {
  NextGeneration next;
  std::vector<Report> stay;
  std::vector<Report> go;
  for (const auto& report : end.reports) (end.leaving.contains(report.member) ? go : stay).push_back(report);
  const auto keeper = std::find_if(go.begin(), go.end(), [](const Report& one) { return one.has_state; });
  if (!any_state(stay) && keeper != go.end()) {
    stay.push_back(*keeper);
    go.erase(keeper);
  }
  for (const auto& report : go) next.out.emplace_back(report.member, "");
  // A member may be out of reach because it has stopped earlier than another, when a third one died or went.
  // Members that cannot reach each other for another reason cannot do so in the next generation either.
  if (go.empty() && !end.lost_any) {
    for (const MemberId id : cut_off(end.record, stay)) {
      next.out.emplace_back(id, "it cannot reach all other members");
      std::erase_if(stay, [id](const Report& report) { return report.member == id; });
    }
  }
  // A job that has made no step has nothing to lose. If no member lives, only hrun knows whether it has.
  const bool any_step =
      std::any_of(stay.begin(), stay.end(), [](const Report& one) { return one.committed > 0; });
  const bool begun = end.record.committed > 0 || any_step || (end.made_steps && stay.empty());
  next.state_is_lost = !any_state(stay) && begun;
  if (next.state_is_lost) return next;

  std::vector<MemberInfo> members;
  for (const auto& report : stay) {
    members.push_back(info_of(end.record, report.member));
    members.back().has_state = report.has_state;
  }
  const bool takes_in =
      std::all_of(stay.begin(), stay.end(), [](const Report& report) { return report.takes_in; });
  const bool grows = takes_in && (!end.lost_any || static_cast<int>(members.size()) < end.least);
  for (const auto& candidate : end.candidates) {
    if (grows && static_cast<int>(members.size()) < end.most) members.push_back(candidate);
  }
  next.record.generation = end.record.generation + 1;
  next.record.members = in_rank_order(std::move(members), end.record);
  next.record.committed = any_state(stay) ? resolve(stay) : 0;
  next.record.paused = takes_in && static_cast<int>(next.record.members.size()) < end.least;
  next.record.hot_spares =
      hot_spares_of(static_cast<int>(next.record.members.size()), end.most, end.hot_spares);
  if (!any_state(stay) && !next.record.members.empty()) first_that_stays(next.record, stay).has_state = true;
  return next;
}

}  // namespace hora::elastic
