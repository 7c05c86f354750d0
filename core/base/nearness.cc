// SPDX-License-Identifier: Apache-2.0
#include "core/base/nearness.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>

namespace hora {
namespace {

constexpr int kMostCaches = 16;  // of one core

bool contains(const CoreSet& all, const CoreSet& some) {
  return std::equal(all.begin(), all.end(), some.begin(),
                    [](std::uint64_t whole, std::uint64_t part) { return (part & ~whole) == 0; });
}

/// Its number; the set is not empty.
std::uint32_t first_of(const CoreSet& cores) {
  std::uint32_t before = 0;
  for (const std::uint64_t word : cores) {
    if (word != 0) return before + static_cast<std::uint32_t>(std::countr_zero(word));
    before += 64;
  }
  return before;
}

/// The cores of a list such as "0-7,64-71". Cores that are not in a CoreSet are left out, as is all that
/// follows text of another form.
CoreSet listed(std::string_view text) {
  CoreSet cores{};
  const char* next = text.data();
  const char* const end = next + text.size();
  while (next < end) {
    std::size_t first = 0;
    auto [stop, error] = std::from_chars(next, end, first);
    if (error != std::errc()) break;
    std::size_t last = first;
    if (stop < end && *stop == '-') {
      const auto [after, wrong] = std::from_chars(stop + 1, end, last);
      if (wrong != std::errc()) break;
      stop = after;
    }
    for (std::size_t core = first; core <= last && core < cores.size() * 64; ++core)
      cores[core / 64] |= std::uint64_t{1} << core % 64;
    next = stop < end && *stop == ',' ? stop + 1 : end;
  }
  return cores;
}

std::optional<CoreSet> listed_in(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  if (!std::getline(file, line)) return std::nullopt;
  return listed(line);
}

/// 0: they are not all among these.
std::uint32_t number(const std::optional<CoreSet>& together, const CoreSet& cores) {
  return together && contains(*together, cores) ? first_of(*together) + 1 : 0;
}

}  // namespace

Nearness nearness(const CoreSet& cores, const std::string& system) {
  if (count_cores(cores) == 0) return {};
  const std::string core = system + "/cpu" + std::to_string(first_of(cores));
  std::optional<CoreSet> cache;
  for (int level = 0; level < kMostCaches; ++level) {
    auto sharing = listed_in(core + "/cache/index" + std::to_string(level) + "/shared_cpu_list");
    if (!sharing) break;
    cache = sharing;
  }
  auto socket = listed_in(core + "/topology/package_cpus_list");
  if (!socket) socket = listed_in(core + "/topology/core_siblings_list");  // before Linux 5.3
  return {number(cache, cores), number(socket, cores)};
}

}  // namespace hora
