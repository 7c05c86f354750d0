// SPDX-License-Identifier: Apache-2.0
#include "core/elastic/process.h"

namespace hora::elastic {

Process* Processes::find(MemberId id) {
  const auto found = all_.find(id);
  return found == all_.end() ? nullptr : &found->second;
}

std::vector<MemberId> Processes::on_host(int host) const {
  std::vector<MemberId> there;
  for (const auto& [id, process] : all_) {
    if (process.info.host == host) there.push_back(id);
  }
  return there;
}

std::vector<MemberId> Processes::members_of(const GenerationRecord& record) const {
  std::vector<MemberId> members;
  for (const auto& member : record.members) {
    if (all_.contains(member.id)) members.push_back(member.id);
  }
  return members;
}

std::vector<MemberInfo> Processes::candidates(const GenerationRecord& record) const {
  std::vector<MemberInfo> waiting;
  for (const auto& [id, process] : all_) {
    if (record.rank_of(id) < 0 && !process.killed && !process.goes) waiting.push_back(process.info);
  }
  return waiting;
}

bool Processes::can_let_go(const GenerationRecord& record) const {
  bool any_goes = false;
  bool any_stays = false;
  for (const auto& member : record.members) {
    const auto found = all_.find(member.id);
    if (found == all_.end()) continue;
    any_goes = any_goes || found->second.goes;
    any_stays = any_stays || (!found->second.goes && (!record.paused || member.has_state));
  }
  return any_goes && any_stays;
}

TimePoint Processes::first_silent_at(const ElasticPolicy& policy) const {
  TimePoint first = TimePoint::max();
  for (const auto& [id, process] : all_) {
    if (!process.killed) first = std::min(first, process.silent_at(policy));
  }
  return first;
}

}  // namespace hora::elastic
