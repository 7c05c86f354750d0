// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/nccl/lane_communicators.h"

#include <cstddef>
#include <memory>
#include <vector>

namespace hora::nccl {

/// Memory that NCCL does not know of, for tensors of one call that lie in such as it does. NCCL finds by the
/// address what it has been told of, and then wants that all ranks have told it of theirs: what comes of it
/// is undefined otherwise. So where ranks are not known to be alike, this one's copies its tensors, which
/// neither needs the others nor matters to them. *Engine only.*
class UnregisteredCopies {
 public:
  UnregisteredCopies(LaneCommunicators& lane, const Communicator& communicator)
      : lane_(lane), communicator_(communicator) {}
  UnregisteredCopies(const UnregisteredCopies&) = delete;
  UnregisteredCopies& operator=(const UnregisteredCopies&) = delete;

  /// The memory that NCCL is to read, write, or both, instead of `data`: `data` itself, if NCCL does not know
  /// of it.
  [[nodiscard]] const void* read(const void* data, std::size_t bytes);
  [[nodiscard]] void* written(void* data, std::size_t bytes);
  [[nodiscard]] void* both(void* data, std::size_t bytes);
  /// Behind what NCCL does on the stream: takes home what was written.
  void end();

 private:
  struct Way {
    std::shared_ptr<std::byte> memory;
    void* home = nullptr;  ///< null: nothing is written
    std::size_t bytes = 0;
  };
  /// `data` itself, or what is there for it until this goes.
  void* place_for(void* data, void* home, std::size_t bytes);

  LaneCommunicators& lane_;
  const Communicator& communicator_;
  std::vector<Way> ways_;
};

}  // namespace hora::nccl
