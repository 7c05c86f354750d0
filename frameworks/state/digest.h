// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace hora::state {

/// A number that is the same for equal bytes. It differs for others but for 1 of 2^64, unless somebody has
/// chosen them to that end. As fast as memory can be read.
[[nodiscard]] std::uint64_t digest_of(std::span<const std::byte> bytes);

}  // namespace hora::state
