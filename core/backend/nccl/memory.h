// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/cuda/gpu.h"
#include "core/backend/nccl/library.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace hora::nccl {

/// A piece of a GPU's memory that NCCL may be told of. It is freed when the last that has one goes: its user,
/// or a communicator that was told. Nothing waits for the GPU then. Thread-safe.
class NcclBlock {
 public:
  /// Zero-filled. Throws Error(unavailable).
  NcclBlock(std::shared_ptr<const OpenNccl> nccl, std::shared_ptr<cuda::CudaGpu> gpu, std::size_t bytes,
            bool users);
  ~NcclBlock();
  NcclBlock(const NcclBlock&) = delete;
  NcclBlock& operator=(const NcclBlock&) = delete;

  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  /// Whether it is a user's, whose tensors need not lie where those of other ranks do. Else it is a buffer
  /// of Hora's, which all ranks use alike.
  [[nodiscard]] bool users() const { return users_; }
  /// Whether its user has gone.
  [[nodiscard]] bool released() const { return released_.load(std::memory_order_acquire); }
  void release() { released_.store(true, std::memory_order_release); }

 private:
  std::shared_ptr<const OpenNccl> nccl_;
  std::shared_ptr<cuda::CudaGpu> gpu_;
  std::size_t bytes_;
  bool users_;
  std::ptrdiff_t taken_ = 0;          ///< of the GPU's memory: NCCL takes whole pieces of 2 MiB or more
  std::shared_ptr<std::byte> plain_;  ///< the GPU's own, where NCCL has none
  std::byte* data_ = nullptr;
  std::atomic<bool> released_{false};
};

/// All such memory of one GPU. It outlives the lanes, and whoever made it. Thread-safe.
class NcclMemory : public std::enable_shared_from_this<NcclMemory> {
 public:
  NcclMemory(std::shared_ptr<const OpenNccl> nccl, std::shared_ptr<cuda::CudaGpu> gpu)
      : nccl_(std::move(nccl)), gpu_(std::move(gpu)) {}
  ~NcclMemory();
  NcclMemory(const NcclMemory&) = delete;
  NcclMemory& operator=(const NcclMemory&) = delete;

  /// Zero-filled, aligned to 256 bytes. Throws Error(unavailable). With `symmetric` it is for users: what
  /// lies in it has a symmetric address, and the thread that gives it up waits for what is on any stream of
  /// the GPU, as for the driver's own memory; where the driver does not let them wait, as during a capture,
  /// which that breaks off, the next who asks for or gives up such memory does. Else it is for what is put on
  /// streams of lanes.
  [[nodiscard]] std::shared_ptr<std::byte> allocate(std::size_t bytes, bool symmetric);
  /// The block that `data` lies in, as long as its user has it; else null.
  [[nodiscard]] std::shared_ptr<NcclBlock> find(const void* data) const;
  /// A number that is equal on two ranks for equal offsets in the same allocation, if both made the same
  /// calls of `allocate` with `symmetric`. Within an allocation it grows with the address. Numbers of two
  /// allocations are never neighbours. 0: `data` has none.
  [[nodiscard]] std::uint64_t symmetric_address(const void* data) const;
  /// How often a user has gone: if it has not changed, no block is released that was not before.
  [[nodiscard]] std::uint64_t releases() const { return releases_.load(std::memory_order_acquire); }

  /// NCCL has not let go of the GPU: whose user goes is kept from now on, and nobody waits.
  void abandon() { abandoned_.store(true, std::memory_order_release); }
  /// Memory that lives as long as this.
  void keep(std::shared_ptr<const void> memory);

 private:
  struct Allocation {
    std::weak_ptr<NcclBlock> block;
    std::size_t bytes = 0;
    std::uint64_t ordinal = 0;  ///< 0: not symmetric
  };

  /// Its user has gone.
  void give_up(const std::shared_ptr<NcclBlock>& block, bool symmetric);
  /// False: the driver does not wait.
  [[nodiscard]] bool wait_for_all() const;
  void release_unwaited();
  /// Where `data` lies in; the map's end if nowhere. `mutex_` is held.
  [[nodiscard]] std::map<const std::byte*, Allocation>::const_iterator allocation_of(const void* data) const;

  std::shared_ptr<const OpenNccl> nccl_;
  std::shared_ptr<cuda::CudaGpu> gpu_;
  mutable std::mutex mutex_;
  std::map<const std::byte*, Allocation> allocations_;
  std::uint64_t ordinal_ = 0;
  std::vector<std::shared_ptr<const void>> kept_;
  std::vector<std::shared_ptr<NcclBlock>> unwaited_;  ///< whose users have gone; streams may use them
  std::atomic<bool> abandoned_{false};
  std::atomic<std::uint64_t> releases_{0};
};

}  // namespace hora::nccl
