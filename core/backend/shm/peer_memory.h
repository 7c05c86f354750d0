// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace hora::shm {

/// Reaches into the private memory of the other ranks of this host.
class PeerMemory {
 public:
  virtual ~PeerMemory() = default;
  // `address` is one in that rank's process. They throw Error(aborted) that names the rank if it cannot be
  // reached.
  virtual void read(int rank, void* to, std::uint64_t address, std::size_t bytes) = 0;
  virtual void write(int rank, std::uint64_t address, const void* from, std::size_t bytes) = 0;

  /// Whether that rank's process has certainly ended, also if nobody has waited for it yet. Thread-safe.
  [[nodiscard]] virtual bool has_ended(int rank) const noexcept = 0;
};

/// Through the kernel (process_vm_readv, process_vm_writev), which may refuse it: then nullptr. `pids` and
/// `probes`: each rank's process, and the address of a word there that holds kProbe and may be written to; 0:
/// nobody reaches into this rank.
std::unique_ptr<PeerMemory> make_process_memory(const std::vector<int>& pids,
                                                const std::vector<std::uint64_t>& probes);
inline constexpr std::uint64_t kProbe = 0x686F7261'70726F62;

/// For ranks that are threads of one process: all memory is in reach.
std::unique_ptr<PeerMemory> make_thread_memory();

}  // namespace hora::shm
