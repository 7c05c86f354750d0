// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runner/launch/topology.h"

#include <string>
#include <vector>

namespace hora::hrun {

/// The resource to which the ranks of a host are bound: nothing; cores of their own; or the NUMA node on
/// which these lie.
enum class BindTo { none, core, numa };
inline constexpr int kBindTos = 3;

/// Where a rank may run. A value.
struct Binding {
  std::vector<int> cpus;  ///< ascending
  int cores = 0;          ///< its share of the host's, for its threads
  bool operator==(const Binding&) const = default;
};

/// A binding for each of a host's `ranks`, or none at all: if nothing is to be bound, or there are more ranks
/// than cores, or than `quota` cores' worth of time. Shares are of neighbouring cores, and as equal as can
/// be. Pure.
[[nodiscard]] std::vector<Binding> bind_ranks(BindTo how, const std::vector<Core>& cores, int quota,
                                              int ranks);
/// The same on this machine, within what hrun itself may use.
[[nodiscard]] std::vector<Binding> bind_ranks_here(BindTo how, int ranks);

/// The text for a host whose ranks were to be bound, and are not.
[[nodiscard]] std::string nothing_bound(BindTo how, int ranks);

/// "core", and back. Throws Error(invalid_argument) that says what there is.
[[nodiscard]] const char* name(BindTo how);
[[nodiscard]] BindTo parse_bind_to(const std::string& text);

/// "cpus 0-3,8-11 (4 cores)".
[[nodiscard]] std::string describe(const Binding& binding);

}  // namespace hora::hrun
