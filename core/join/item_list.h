// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/bytes.h"

#include <hora/alike.h>

#include <span>
#include <vector>

namespace hora {

/// Items as they travel; the same bytes for the same items in any order.
[[nodiscard]] Bytes encode(std::vector<Item> items);
/// Throws Error(internal) for bytes that no rank would send.
[[nodiscard]] std::vector<Item> decode_items(std::span<const std::byte> bytes);
/// 16 bytes that are others as soon as the bytes are.
[[nodiscard]] Bytes digest_of(std::span<const std::byte> bytes);

}  // namespace hora
