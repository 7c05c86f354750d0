// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>

namespace hora {

/// Memory of this process: `bytes`, which may be 0, aligned to 64 and not initialised. Never null. Throws
/// Error(unavailable) if there is not that much.
[[nodiscard]] std::shared_ptr<std::byte> allocate_aligned(std::size_t bytes);
/// The same, zero-filled.
[[nodiscard]] std::shared_ptr<std::byte> allocate_zeroed(std::size_t bytes);

/// Never frees the memory that `owned` owns, as a user of it that cannot be asked may still be there.
/// Thread-safe.
void keep_for_ever(std::shared_ptr<void> owned);

}  // namespace hora
