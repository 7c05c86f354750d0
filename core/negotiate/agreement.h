// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/negotiate/message.h"

#include <span>
#include <string>
#include <vector>

namespace hora {

/// What all ranks will do about one tensor, given what each of them asks for (by rank; not empty; equal
/// names). Equal requests make a decision; unequal ones a decision with Code::mismatch whose message names
/// the tensor, the values and the ranks: "'w': tensor differs between ranks: float32[4] on ranks 0-2,
/// float32[5] on rank 3". A pure function.
[[nodiscard]] Decision agree(std::span<const Request* const> requests);

}  // namespace hora
