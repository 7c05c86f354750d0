// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/cuda/cuda_stream.h"
#include "core/backend/nccl/communicator.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace hora::nccl {

/// The communicators of one lane, from when NCCL has first heard of them until it has forgotten them, and
/// what its collectives share besides. *Engine only*, but what `context` says.
class LaneCommunicators {
 public:
  /// `stream` lives longer.
  LaneCommunicators(NcclContext context, cuda::CudaStream& stream)
      : context_(std::move(context)), stream_(stream) {}

  [[nodiscard]] const NcclContext& context() const { return context_; }
  [[nodiscard]] const NcclFunctions& nccl() const { return context_.nccl->functions; }
  [[nodiscard]] Stream& stream() const { return stream_; }
  [[nodiscard]] cudaStream_t native_stream() const { return stream_.handle(); }

  std::shared_ptr<Communicator> connect(const NcclId& id, int place, int places);
  /// Null if `place` is negative; see Communicator::split_from.
  std::shared_ptr<Communicator> split(Communicator& parent, int place, int places);
  /// Ends a communicator; what fails stays here, until all are aborted.
  void close(const std::shared_ptr<Communicator>& communicator) noexcept;

  /// Throws if there is a reason to stop, or NCCL has found a failure; lets go of memory that nobody
  /// has.
  void check();
  /// As NcclLane::abort.
  bool abort() noexcept;

  /// The first step of each call: as `check`, but NCCL is not asked whether it has found a failure.
  void begin();
  /// `bytes` of the GPU's memory, for what is put on the stream until the next call of this.
  [[nodiscard]] std::byte* scratch(std::size_t bytes);
  /// A word of the GPU's memory.
  [[nodiscard]] void* word();

 private:
  /// Until all that is on the stream has been done; `before` says what is to come then.
  void drain(const std::string& before);
  void abandon_memory();
  void part_with_memory();

  NcclContext context_;
  cuda::CudaStream& stream_;
  std::vector<std::shared_ptr<Communicator>> communicators_;
  /// Blocks that NCCL has forgotten, until the stream has got there.
  std::vector<std::pair<std::shared_ptr<Event>, std::shared_ptr<NcclBlock>>> parted_;
  std::shared_ptr<std::byte> scratch_;
  std::size_t scratch_bytes_ = 0;
  std::shared_ptr<std::byte> word_;
  bool aborted_ = false;
  bool abort_returned_ = true;
};

}  // namespace hora::nccl
