// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/clock.h"
#include "core/comm/membership.h"

#include <hora/config.h>

namespace hora {

// Ranks of one host that a launcher other than hrun started share a name and nothing else. Rank 0 listens at
// the local socket of that name, config.meeting_place, or where there is a HORA_SECRET_FILE one that follows
// from that, which nobody else can guess. The others connect, say who they are, and wait; when
// all are there, rank 0 tells each the port of rank 0 and a secret that it has made up, and closes. The
// kernel tells both sides whose process the other is: only the same user, or root, counts. Nothing is left
// behind, and no other user can read anything.
//
// Rank 0 closes before the ranks connect to it as a job, so whoever comes for a second job finds either
// nobody or the rank 0 of that job. A connection that breaks is therefore tried again, until the deadline.

/// The membership with the coordinator and the secret, and on rank 0 the listener. Throws on every rank
/// Error(timeout) that names those who did not come, Error(invalid_argument) if two came as the same rank or
/// with another size, and Error(unavailable) if another user has the name: which one.
[[nodiscard]] Membership bootstrap_on_host(Membership membership, const Config& config, TimePoint deadline);

}  // namespace hora
