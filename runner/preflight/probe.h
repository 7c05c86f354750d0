// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runner/launch/hosts.h"

#include <optional>
#include <string>
#include <vector>

namespace hora::hrun {

/// The command for hrun's --preflight, for one rank on each of these hosts: whatever starts it there, hrun or
/// its agent, as a probe.
[[nodiscard]] std::vector<std::string> probe_command(const std::vector<HostSlots>& hosts);

/// If these arguments of hrun make it a probe, it is one, and this is its exit code. Probes are ranks that
/// measure: those of --preflight, one on each host, and on each host a job of as many ranks as it has slots,
/// which says what they can do with shared memory.
[[nodiscard]] std::optional<int> run_probe(const std::vector<std::string>& arguments);

}  // namespace hora::hrun
