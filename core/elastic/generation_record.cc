// SPDX-License-Identifier: Apache-2.0
#include "core/elastic/generation_record.h"

#include <hora/status.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

namespace hora::elastic {
namespace {

constexpr std::size_t kLeastMemberBytes = 4;
constexpr std::uint64_t kMostNumber = 1U << 24;  // of a host or a slot

/// If the first one has no state, and another one has: the host of that one comes first, and there it does.
void put_one_with_state_first(std::vector<MemberInfo>& members) {
  const auto first =
      std::find_if(members.begin(), members.end(), [](const MemberInfo& one) { return one.has_state; });
  if (first == members.begin() || first == members.end()) return;
  const MemberInfo chosen = *first;
  const auto rank = [&](const MemberInfo& one) {
    return one == chosen ? 0 : one.host == chosen.host ? 1 : 2;
  };
  std::stable_sort(members.begin(), members.end(),
                   [&](const MemberInfo& one, const MemberInfo& other) { return rank(one) < rank(other); });
}

}  // namespace

int GenerationRecord::rank_of(MemberId id) const {
  const auto found =
      std::find_if(members.begin(), members.end(), [id](const MemberInfo& one) { return one.id == id; });
  return found == members.end() ? -1 : static_cast<int>(found - members.begin());
}

Bytes encode(const GenerationRecord& record) {
  Writer out;
  out.u64(record.generation).u64(record.committed).u8(record.paused ? 1 : 0);
  out.u64(static_cast<std::uint64_t>(record.hot_spares)).u64(record.members.size());
  for (const auto& each : record.members) {
    out.u64(each.id).u64(static_cast<std::uint64_t>(each.host)).u64(static_cast<std::uint64_t>(each.slot));
    out.u8(each.has_state ? 1 : 0);
  }
  return out.take();
}

GenerationRecord decode_generation_record(std::span<const std::byte> bytes) {
  Reader in(bytes);
  GenerationRecord record;
  record.generation = in.u64();
  record.committed = in.u64();
  record.paused = in.boolean();
  const auto hot_spares = static_cast<std::size_t>(in.below(kMostNumber, "hot spares"));
  const std::size_t count = in.count(kLeastMemberBytes, "members");
  if (hot_spares > 0 && hot_spares >= count)
    throw Error(Code::internal, "a generation record has no member that trains");
  record.hot_spares = static_cast<int>(hot_spares);
  std::set<MemberId> seen;
  for (std::size_t i = 0; i < count; ++i) {
    MemberInfo member;
    member.id = in.u64();
    member.host = static_cast<int>(in.below(kMostNumber, "a host"));
    member.slot = static_cast<int>(in.below(kMostNumber, "a slot"));
    member.has_state = in.boolean();
    if (!seen.insert(member.id).second)
      throw Error(Code::internal, "a generation record names one member twice");
    record.members.push_back(member);
  }
  in.finish();
  return record;
}

std::vector<MemberInfo> in_rank_order(std::vector<MemberInfo> members, const GenerationRecord& former) {
  std::map<int, int> place;  // of each former host
  for (const auto& each : former.members) place.emplace(each.host, static_cast<int>(place.size()));
  const auto key = [&](const MemberInfo& one) {
    const auto found = place.find(one.host);
    const int of_host = found == place.end() ? static_cast<int>(place.size()) : found->second;
    return std::tuple(of_host, one.host, one.slot, one.id);
  };
  std::sort(members.begin(), members.end(),
            [&](const MemberInfo& one, const MemberInfo& other) { return key(one) < key(other); });
  put_one_with_state_first(members);
  return members;
}

}  // namespace hora::elastic
