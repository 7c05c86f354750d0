// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/cores.h"
#include "core/base/nearness.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <limits>

namespace hora {

/// The cores that a process may run on, as it reports them to the others in memory that they share. All zeros
/// at first, and trivially so. Relaxed: a reader knows by other words that it was written.
struct SharedCores {
  std::array<std::atomic<std::uint64_t>, std::tuple_size_v<CoreSet>> cores;
  std::atomic<std::uint32_t> quota;  ///< how many of them at a time
  std::atomic<std::uint32_t> cache;  ///< Nearness of them
  std::atomic<std::uint32_t> socket;
};

inline void tell(SharedCores& shared) {
  const CoreSet cores = usable_cores();
  for (std::size_t i = 0; i < cores.size(); ++i) shared.cores[i].store(cores[i], std::memory_order_relaxed);
  shared.quota.store(static_cast<std::uint32_t>(core_quota()), std::memory_order_relaxed);
  const Nearness near = nearness(cores);
  shared.cache.store(near.cache, std::memory_order_relaxed);
  shared.socket.store(near.socket, std::memory_order_relaxed);
}

/// Copies a report that was made elsewhere. Threads of a process may run on different cores, so the thread
/// that happens to take part in something new does not look again.
inline void copy_told(SharedCores& to, const SharedCores& from) {
  for (std::size_t i = 0; i < from.cores.size(); ++i)
    to.cores[i].store(from.cores[i].load(std::memory_order_relaxed), std::memory_order_relaxed);
  to.quota.store(from.quota.load(std::memory_order_relaxed), std::memory_order_relaxed);
  to.cache.store(from.cache.load(std::memory_order_relaxed), std::memory_order_relaxed);
  to.socket.store(from.socket.load(std::memory_order_relaxed), std::memory_order_relaxed);
}

/// The number of cores for each of that many processes; 0: there are more processes than cores. `told(i)`:
/// the report of process i.
template <typename Told>
int cores_for_each(int processes, const Told& told) {
  CoreSet all{};
  auto quota = std::numeric_limits<std::uint32_t>::max();
  for (int i = 0; i < processes; ++i) {
    const SharedCores& shared = told(i);
    for (std::size_t j = 0; j < all.size(); ++j) all[j] |= shared.cores[j].load(std::memory_order_relaxed);
    quota = std::min(quota, shared.quota.load(std::memory_order_relaxed));
  }
  return static_cast<int>(std::min(static_cast<std::uint32_t>(count_cores(all)), quota)) / processes;
}

}  // namespace hora
