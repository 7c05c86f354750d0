// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/negotiate/message.h"

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace hora {

/// What all ranks of a group will do about one tensor, given what each of them asks for (by place; not empty;
/// equal names). Equal requests make a decision; unequal ones a decision with Code::mismatch whose message
/// names the tensor, the values and the ranks: "'w': tensor differs between ranks: float32[4] on ranks 0-2,
/// float32[5] on rank 3". `members`: the ranks, by place. A pure function.
[[nodiscard]] Decision agree(std::span<const Request* const> requests, const std::vector<int>& members);

/// What a rank that has joined asks for, where another asks for `like`; nothing if that cannot be done
/// without the rank. A pure function.
[[nodiscard]] std::optional<Request> stand_in(const Request& like);

/// What fails on every rank; `text` says why. A pure function.
[[nodiscard]] Decision failure(const Request& request, Code code, const std::string& text);

}  // namespace hora
