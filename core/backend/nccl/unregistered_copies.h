// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/nccl/lane_communicators.h"

#include <cstddef>
#include <memory>
#include <vector>

namespace hora::nccl {

/// Replaces the tensors of one call that lie in registered memory by copies in memory that is not registered.
///
/// NCCL finds by an address whether it lies in memory that was registered with it. A call is undefined if
/// that is so on one rank, but not on another. Where ranks are not known to be alike, each rank therefore
/// gives NCCL unregistered memory only. Whether a rank has to copy for that is its own affair: the other
/// ranks need not know. Memory for copies is allocated on the lane's stream and freed in its order, so
/// neither waits for the GPU. *Engine only.*
class UnregisteredCopies {
 public:
  UnregisteredCopies(LaneCommunicators& lane, const Communicator& communicator)
      : lane_(lane), communicator_(communicator) {}
  UnregisteredCopies(const UnregisteredCopies&) = delete;
  UnregisteredCopies& operator=(const UnregisteredCopies&) = delete;

  /// The address to give to NCCL instead of `data`, which it reads, writes, or both. It is `data` itself if
  /// that is not registered, else that of a copy, valid for work on the lane's stream until this is
  /// destroyed.
  [[nodiscard]] const void* read(const void* data, std::size_t bytes);
  [[nodiscard]] void* written(void* data, std::size_t bytes);
  [[nodiscard]] void* both(void* data, std::size_t bytes);
  /// Copies back what NCCL has written. Call it after the call to NCCL: the copies are put on the lane's
  /// stream, behind NCCL's work.
  void end();

 private:
  struct Way {
    std::shared_ptr<std::byte> memory;
    void* home = nullptr;  ///< null: nothing is written
    std::size_t bytes = 0;
  };
  /// `data` itself, or new memory for a copy; `home`: where `end` copies it to, or null.
  void* buffer_for(void* data, void* home, std::size_t bytes);

  LaneCommunicators& lane_;
  const Communicator& communicator_;
  std::vector<Way> ways_;
};

}  // namespace hora::nccl
