// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "test/support/fake_gpu/host_kernels/memory_traffic.h"

#include <cstdint>

// The place of the calling thread of a GPU, as CUDA's compiler has it.

struct HostIndex {
  unsigned x = 0;
};
extern thread_local HostIndex threadIdx;  // NOLINT: CUDA's names
extern thread_local HostIndex blockIdx;   // NOLINT
/// Waits for all threads of the block that have not ended. Whether the predicate of any of them is not 0. A
/// kernel may call this once.
int __syncthreads_or(int predicate);  // NOLINT

namespace hora {

/// Told of every access of a kernel to global memory. False if the address is not aligned to these bytes: the
/// access must not be made, and the launch fails.
bool access_global(Direction direction, std::uint64_t address, unsigned bytes);

/// Each of `count` values becomes the largest one of `neighbours` threads, which all call this. It waits for
/// the block, which a kernel may do once.
void exchange_largest(std::uint32_t* values, unsigned count, unsigned neighbours);

/// A launch. A value.
struct HostLaunch {
  void (*call)(void* kernel, const void* table);
  void* kernel;
  const void* table;
  unsigned grid;           ///< blocks
  unsigned threads;        ///< of a block
  MemoryTraffic* traffic;  ///< may be null
};

/// Calls the kernel for every thread of every block, one after the other. A thread that waits for its block
/// calls the kernel for the threads that have not begun, from within its own call; so all of them have come
/// to the same place, or ended, before the first one goes on. False if a thread used an address that is not
/// aligned.
extern "C" bool hora_run_blocks(const HostLaunch& launch);

}  // namespace hora
