// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/clock.h"
#include "core/comm/membership.h"

#include <hora/config.h>

#include <memory>

namespace hora {

/// A source of a process's memberships: the launcher, MPI, or whatever else starts the ranks. It gives one
/// membership for each generation of the job. For one thread at a time.
class MembershipSource {
 public:
  virtual ~MembershipSource() = default;

  /// The membership of the next generation. All ranks of that generation call it. It blocks until the source
  /// can tell this rank's place, at most until the deadline. Throws Error(timeout) at the deadline,
  /// Error(unavailable) where the source cannot be used, and Error(invalid_argument) where it tells too
  /// little, or there is no next generation.
  virtual Membership next(TimePoint deadline) = 0;

  /// Whether the job may go on with another membership after the present one has ended, as after the loss of
  /// a rank.
  [[nodiscard]] virtual bool has_more() const = 0;
};

/// The membership that the settings of hrun's ranks name as they are.
[[nodiscard]] Membership membership_of(const Config& config);

/// The source that the settings name: MPI for `mpi_communicator` and for mpirun on several hosts, a local
/// socket for `meeting_place`, else the settings themselves. It gives one membership.
[[nodiscard]] std::unique_ptr<MembershipSource> make_membership_source(const Config& config);

}  // namespace hora
