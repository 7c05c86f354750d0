// SPDX-License-Identifier: Apache-2.0
#include "core/backend/shm/levels.h"

#include <algorithm>
#include <map>
#include <utility>

namespace hora::shm {

Levels::Levels(std::span<const Nearness> ranks) {
  const auto known = [&](std::uint32_t Nearness::* what) {
    return std::all_of(ranks.begin(), ranks.end(), [what](const Nearness& near) { return near.*what != 0; });
  };
  const bool caches = known(&Nearness::cache);
  const bool sockets = known(&Nearness::socket);
  Keys keys;
  for (const auto& near : ranks) keys.push_back({caches ? near.cache : 0, sockets ? near.socket : 0});
  build(keys);
}

Levels::Levels(int ranks, std::span<const int> sizes) {
  Keys keys(static_cast<std::size_t>(ranks));
  for (std::size_t place = 0; place < keys.size(); ++place) {
    for (const int size : sizes)
      keys[place].push_back(static_cast<std::uint32_t>(place / static_cast<std::size_t>(size)));
  }
  build(keys);
}

void Levels::build(const Keys& keys) {
  std::vector<std::size_t> below;  // the groups of the level below, by place
  for (std::size_t place = 0; place < keys.size(); ++place) below.push_back(place);
  std::size_t groups_below = keys.size();
  const std::size_t given = keys.front().size();
  for (std::size_t k = 0; k <= given; ++k) {
    Level level;
    // Ranks that are in one group now are in one group later, too: their groups from here on are the same.
    std::map<std::vector<std::uint32_t>, std::size_t> known;
    for (std::size_t place = 0; place < keys.size(); ++place) {
      const auto rest = keys[place].begin() + static_cast<std::ptrdiff_t>(k);
      const auto [entry, fresh] =
          known.emplace(std::vector<std::uint32_t>(rest, keys[place].end()), level.groups.size());
      if (fresh) level.groups.emplace_back();
      Group& group = level.groups[entry->second];
      group.members.push_back(static_cast<int>(place));
      if (std::find(group.parts.begin(), group.parts.end(), below[place]) == group.parts.end())
        group.parts.push_back(below[place]);
      level.group_of.push_back(entry->second);
    }
    const bool last = k == given;
    if (!last && (level.groups.size() == 1 || level.groups.size() == groups_below)) continue;
    groups_below = level.groups.size();
    below = level.group_of;
    levels_.push_back(std::move(level));
  }
}

}  // namespace hora::shm
