// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

// The parameters, given by value, of the kernels that Hora's kernels are compared with.

namespace hora {

/// Tensors of one launch, each with as many blocks, whatever its size.
inline constexpr std::uint32_t kPeerTensors = 160;
inline constexpr std::uint32_t kPeerBlocks = 8;
inline constexpr std::uint32_t kPeerThreads = 1024;

struct PeerTable {
  std::uint64_t to[kPeerTensors];
  std::uint64_t from[kPeerTensors];
  std::uint32_t bytes[kPeerTensors];
};
static_assert(sizeof(PeerTable) <= 4096);

/// The copy that tells how fast the multiprocessors can go.
inline constexpr std::uint32_t kCopyThreads = 512;
inline constexpr std::uint32_t kCopyDepth = 4;

struct PeerCopy {
  std::uint64_t to;
  std::uint64_t from;
  std::uint64_t units;  ///< of 16 bytes
};

}  // namespace hora
