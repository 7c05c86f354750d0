// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/bytes.h"

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace hora {

/// An operation that is under way on a rank. A value.
struct InFlight {
  std::string name;
  std::string what;                   ///< "allreduce float32[3,4]"
  std::chrono::milliseconds since{};  ///< how long ago it was submitted

  bool operator==(const InFlight&) const = default;
};

/// The account that a rank gives of itself when it is asked how it is. A value.
struct Health {
  std::uint64_t finished = 0;              ///< its operations so far
  std::uint64_t bytes = 0;                 ///< of the tensors that went into them
  std::string last;                        ///< the one that it finished last; empty: none
  std::chrono::milliseconds since_last{};  ///< and how long ago that was
  std::uint64_t in_flight = 0;             ///< operations that it has submitted, and that have not finished
  std::vector<InFlight> oldest;            ///< the first of them

  bool operator==(const Health&) const = default;
};

/// The account that rank 0 gives of the job: of steps nothing where a program repeats no operation. A value.
struct JobHealth {
  std::uint64_t steps = 0;
  double steps_per_second = 0;
  std::chrono::milliseconds since_step{};  ///< the end of the last one

  /// How late a rank came in the last steps; see core/watch/lateness.h.
  struct Late {
    int rank = 0;
    std::chrono::microseconds median{};
    std::chrono::microseconds p99{};
    double last = 0;
    bool operator==(const Late&) const = default;
  };
  std::vector<Late> lateness;  ///< by rank

  /// An operation that some ranks have submitted and others have not.
  struct Missed {
    InFlight operation;             ///< since the first asked for it
    std::uint64_t step = 0;         ///< of the training; 0: it is a new one
    std::vector<int> missing;       ///< the first of the ranks that have not
    std::uint64_t all_missing = 0;  ///< how many have not
    bool operator==(const Missed&) const = default;
  };
  std::uint64_t waiting = 0;    ///< such operations
  std::vector<Missed> longest;  ///< the first of them

  bool operator==(const JobHealth&) const = default;
};

// How much is told at the most. Entries that are left out are counted.
inline constexpr std::size_t kMostTold = 16;       // operations
inline constexpr std::size_t kMostMissing = 256;   // ranks
inline constexpr std::size_t kMostLate = 4096;     // ranks
inline constexpr std::size_t kMostToldName = 256;  // bytes

/// To bytes and back. Encoding shortens what is long; decoding throws Error(internal) for what no rank would
/// send.
[[nodiscard]] Bytes encode(const Health& health);
[[nodiscard]] Health decode_health(std::span<const std::byte> bytes);
[[nodiscard]] Bytes encode(const JobHealth& health);
[[nodiscard]] JobHealth decode_job_health(std::span<const std::byte> bytes);

}  // namespace hora
