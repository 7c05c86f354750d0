// SPDX-License-Identifier: Apache-2.0
// Kernels that Hora's kernels are compared with.
#include "test/gpu/peer_kernels.h"

using namespace hora;  // a program of its own

/// A plain copy of one large piece of memory: the rate that the memory allows.
extern "C" __global__ void __launch_bounds__(kCopyThreads) peer_copy(const PeerCopy copy) {
  auto* to = reinterpret_cast<uint4*>(copy.to);
  const auto* from = reinterpret_cast<const uint4*>(copy.from);
  const std::uint64_t begin = std::uint64_t{blockIdx.x} * kCopyThreads * kCopyDepth + threadIdx.x;
  uint4 units[kCopyDepth];
#pragma unroll
  for (std::uint32_t i = 0; i < kCopyDepth; ++i) {
    const std::uint64_t at = begin + std::uint64_t{i} * kCopyThreads;
    if (at < copy.units) units[i] = from[at];
  }
#pragma unroll
  for (std::uint32_t i = 0; i < kCopyDepth; ++i) {
    const std::uint64_t at = begin + std::uint64_t{i} * kCopyThreads;
    if (at < copy.units) to[at] = units[i];
  }
}

/// Eight blocks for each tensor, whatever its size: the usual batched copy.
extern "C" __global__ void __launch_bounds__(kPeerThreads) peer_fixed_blocks(const PeerTable table) {
  const std::uint32_t tensor = blockIdx.x / kPeerBlocks;
  const std::uint32_t first = blockIdx.x % kPeerBlocks * kPeerThreads + threadIdx.x;
  const std::uint64_t to = table.to[tensor];
  const std::uint64_t from = table.from[tensor];
  const std::uint32_t bytes = table.bytes[tensor];
  const std::uint32_t units = (to | from) % 16 == 0 ? bytes / 16 : 0;
  for (std::uint32_t i = first; i < units; i += kPeerBlocks * kPeerThreads)
    reinterpret_cast<uint4*>(to)[i] = reinterpret_cast<const uint4*>(from)[i];
  for (std::uint32_t i = units * 4 + first; i < bytes / 4; i += kPeerBlocks * kPeerThreads)
    reinterpret_cast<std::uint32_t*>(to)[i] = reinterpret_cast<const std::uint32_t*>(from)[i];
  for (std::uint32_t i = bytes / 4 * 4 + first; i < bytes; i += kPeerBlocks * kPeerThreads)
    reinterpret_cast<std::uint8_t*>(to)[i] = reinterpret_cast<const std::uint8_t*>(from)[i];
}
