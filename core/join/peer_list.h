// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/comm/world.h"

namespace hora {

inline constexpr int kMostRadix = 64;

/// The ranks that take part in a job. A value.
struct PeerList {
  std::string job;
  std::vector<Member> members;  ///< by rank
  int radix = 0;                ///< of the tree over which they agree; 0: a star
  bool operator==(const PeerList&) const = default;
};

/// This process as the others will know it.
[[nodiscard]] Member this_member(int rank);

[[nodiscard]] Bytes encode(const Member& member);
[[nodiscard]] Bytes encode(const PeerList& peer_list);
/// Throw Error(internal) for bytes that no rank would send. `rank`, `size`: what they must be.
[[nodiscard]] Member decode_member(std::span<const std::byte> bytes, int rank);
[[nodiscard]] PeerList decode_peer_list(std::span<const std::byte> bytes, int size);

}  // namespace hora
