// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/comm/collective.h"
#include "core/runtime/running_batch.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace hora {

/// The part of carrying out a batch that depends on the memory that its tensors lie in: when the batch is
/// done, and where memory for it comes from. For each batch an Executor calls `make_room`, `begin` and
/// `complete` once, in this order; the others are called in between. *Engine only.*
class Completion {
 public:
  virtual ~Completion() = default;

  /// Blocks while too many batches are under way. Throws Error with the status of a failure.
  virtual void make_room() = 0;
  /// Orders the work that the lane gets from here on behind the work that makes the inputs.
  virtual void begin(const std::vector<BatchItem>& items) = 0;
  /// Gives the tensors back when the work that the lane has got for them is done. `failure`: not ok: a call
  /// between `begin` and this one failed with it, and the tensors get it. Throws Error if nothing can tell
  /// when the work is done; then the tensors have been given back with that status.
  virtual void complete(RunningBatch batch, const Status& failure) = 0;

  /// Memory for a rank that has joined and has no tensor for this request. An allreduce of its elements
  /// changes nothing for the other ranks.
  [[nodiscard]] virtual std::shared_ptr<std::byte> stand_in(const Request& request) = 0;
  /// Memory of this shape for the output of an item, which the lane's stream may use.
  [[nodiscard]] virtual void* allocate(BatchItem& item, const std::vector<std::int64_t>& shape) = 0;

  using HostWork = std::function<void(Collective& host, std::span<const Segment> segments)>;
  /// Has the host compute on the elements of all segments, of `each` bytes: calls `work` with them, all at
  /// once or one after the other, in memory that the host can read. Their outputs are complete in the order
  /// of the lane's stream.
  virtual void on_host(std::span<const Segment> segments, std::size_t each, const HostWork& work) = 0;
};

}  // namespace hora
