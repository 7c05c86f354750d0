// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/descriptor.h"

#include <hora/config.h>

#include <cstdint>
#include <memory>
#include <string>

namespace hora {

/// The ranks of a job, as one of them knows them before they have met: which of them it is, and how they find
/// and recognise each other. A membership never changes. A job whose ranks change gets another one, of the
/// next generation. A value.
struct Membership {
  std::uint64_t generation = 0;
  int rank = 0;
  int size = 1;
  int local_rank = 0;
  int local_size = 1;  ///< 0: this and the local rank are found out when the ranks meet
  int cross_rank = 0;
  int cross_size = 1;  ///< 0: this and the cross rank are found out when the ranks meet
  /// Eight hexadecimal digits by which the launcher knows the job; empty: rank 0 makes them up, or they
  /// follow from the secret (core/join/job_id.h).
  std::string job{};
  /// "address:port" at which rank 0 listens; several, separated by commas, are all tried.
  std::string coordinator;
  /// Rank 0: a socket that listens there already. Null: rank 0 opens one.
  std::shared_ptr<const Descriptor> listener{};
  Secret secret{};
  /// A socket on which is told how ranks of this generation end; null: it is Config::news_fd.
  std::shared_ptr<const Descriptor> news{};
};

}  // namespace hora
