// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/comm/membership.h"

#include <hora/config.h>

#include <cstddef>
#include <string>
#include <string_view>

namespace hora {

/// At most 64 hexadecimal digits that follow from a secret, are others for each purpose, and tell nothing of
/// the secret.
[[nodiscard]] std::string digits_of(const Secret& secret, std::string_view purpose, std::size_t digits);

// Eight hexadecimal digits by which a job is known: to its ranks, in the names of their dumps, and to hrun.

/// Of a job that hrun has started: they follow from its secret, which hrun and all ranks have, and tell
/// nothing of it.
[[nodiscard]] std::string job_id(const Secret& secret);
/// Of a job, as its rank 0 knows it: that of the membership, or the former. Where hrun has not started the
/// job, digits at random, as other jobs may have the same secret.
[[nodiscard]] std::string job_id(const Membership& membership, const Config& config);

}  // namespace hora
