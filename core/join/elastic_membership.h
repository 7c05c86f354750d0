// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/comm/membership.h"
#include "core/elastic/generation_record.h"

namespace hora {

/// The membership of a member in the generation of this record, which must have it. The coordinator, the
/// secret and the listener are not in a record. A pure function.
[[nodiscard]] Membership membership_in(const elastic::GenerationRecord& record, elastic::MemberId id);

}  // namespace hora
