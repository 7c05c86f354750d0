// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

namespace hora {

/// The name that this machine has for itself: `hostname`.
[[nodiscard]] std::string host_name();

/// Names this boot of this kernel: no two machines have the same, whatever their names. Containers have that
/// of their machine. Empty where /proc does not tell.
[[nodiscard]] std::string boot_id();
inline constexpr std::size_t kBootIdLength = 36;

}  // namespace hora
