// SPDX-License-Identifier: Apache-2.0
#include "runner/launch/binding.h"

#include "core/base/cores.h"

#include <hora/status.h>

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace hora::hrun {
namespace {

using Cores = std::vector<Core>;

/// The NUMA node on which most of these cores lie; the first of several.
int node_of_most(Cores::const_iterator begin, Cores::const_iterator end) {
  std::map<int, int> counts;
  for (auto core = begin; core != end; ++core) ++counts[core->node];
  return std::max_element(counts.begin(), counts.end(),
                          [](const auto& a, const auto& b) { return a.second < b.second; })
      ->first;
}

void add(Binding& binding, const Core& core) {
  binding.cpus.insert(binding.cpus.end(), core.cpus.begin(), core.cpus.end());
}

}  // namespace

std::vector<Binding> bind_ranks(BindTo how, const Cores& cores, int quota, int ranks) {
  const auto count = static_cast<std::size_t>(ranks);
  if (how == BindTo::none || cores.size() < count || quota < ranks) return {};
  std::vector<Binding> bindings(count);
  for (std::size_t rank = 0; rank < count; ++rank) {
    const auto bound = [&](std::size_t number) {
      return cores.begin() + static_cast<std::ptrdiff_t>(cores.size() * number / count);
    };
    const auto begin = bound(rank);
    const auto end = bound(rank + 1);
    Binding& binding = bindings[rank];
    binding.cores = std::min(static_cast<int>(end - begin), std::max(1, quota / ranks));
    if (how == BindTo::core) {
      std::for_each(begin, end, [&](const Core& core) { add(binding, core); });
    } else {
      const int node = node_of_most(begin, end);
      for (const auto& core : cores) {
        if (core.node == node) add(binding, core);
      }
    }
    std::sort(binding.cpus.begin(), binding.cpus.end());
  }
  return bindings;
}

std::vector<Binding> bind_ranks_here(BindTo how, int ranks) {
  return how == BindTo::none ? std::vector<Binding>() : bind_ranks(how, cores_here(), core_quota(), ranks);
}

std::string nothing_bound(BindTo how, int ranks) {
  const int cores = std::min(static_cast<int>(cores_here().size()), core_quota());
  return fmt::format("--bind-to {}: there are {} ranks and {} {}, so no rank is bound", name(how), ranks,
                     cores, cores == 1 ? "core" : "cores");
}

const char* name(BindTo how) {
  switch (how) {
    case BindTo::none: return "none";
    case BindTo::core: return "core";
    case BindTo::numa: return "numa";
  }
  return "?";
}

BindTo parse_bind_to(const std::string& text) {
  for (const BindTo how : {BindTo::none, BindTo::core, BindTo::numa}) {
    if (text == name(how)) return how;
  }
  throw Error(Code::invalid_argument, fmt::format("--bind-to: must be none, core or numa, not '{}'", text));
}

std::string describe(const Binding& binding) {
  std::string ranges;
  const auto& cpus = binding.cpus;
  for (std::size_t i = 0; i < cpus.size();) {
    std::size_t last = i;
    while (last + 1 < cpus.size() && cpus[last + 1] == cpus[last] + 1) ++last;
    ranges += fmt::format("{}{}", ranges.empty() ? "" : ",", cpus[i]);
    if (last > i) ranges += fmt::format("-{}", cpus[last]);
    i = last + 1;
  }
  return fmt::format("cpus {} ({} {})", ranges, binding.cores, binding.cores == 1 ? "core" : "cores");
}

}  // namespace hora::hrun
