// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace hora {

/// The process that started a rank, although shells and wrappers may lie between: the nearest ancestor of
/// `pid` that was started without a variable of the environment that the rank was given. "pid.start", so that
/// it never means another process; empty if /proc does not tell.
[[nodiscard]] std::string ancestor_without(const std::string& variable, int pid);

}  // namespace hora
