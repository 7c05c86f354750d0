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

/// The part of carrying out a batch that depends on where its tensors lie: in the host's memory or on a GPU.
/// A Completion decides when a batch is done, and where the memory for it comes from. For each batch an
/// Executor calls `make_room`, `begin` and `complete` once, in this order. It calls `stand_in` before
/// `begin`, and `allocate` and `on_host` after it. If a call fails, `complete` follows at once. *Engine
/// only.*
class Completion {
 public:
  virtual ~Completion() = default;

  /// Blocks while too many batches are under way. Throws Error with the status of a batch that has failed, or
  /// of an abort.
  virtual void make_room() = 0;
  /// Makes the lane's later work wait until the inputs of `items` are ready. The lane's earlier work is not
  /// affected. `keeps_memory`: memory that was taken is kept, as freeing it would wait for a graph.
  virtual void begin(const std::vector<BatchItem>& items, bool keeps_memory) = 0;
  /// Gives the tensors back to their owners, as soon as the lane's work for them is done. `failure`: ok, or
  /// the status with which the batch has failed; its tensors then get this status. Throws Error if the end of
  /// the work cannot be observed. The tensors have then been given back with that status.
  virtual void complete(RunningBatch batch, const Status& failure) = 0;

  /// Memory for a rank that has joined, and so has no tensor for this request. In an allreduce its elements
  /// do not change the result.
  [[nodiscard]] virtual std::shared_ptr<std::byte> stand_in(const Request& request) = 0;
  /// Allocates memory of this shape for the output of an item. Work on the lane's stream may use it.
  [[nodiscard]] virtual void* allocate(BatchItem& item, const std::vector<std::int64_t>& shape) = 0;

  using HostWork = std::function<void(Collective& host, std::span<const Segment> segments)>;
  /// Lets the host compute on the elements of all segments, of `each` bytes per element. Calls `work` either
  /// once with all segments, or once for each of them. The segments given to `work` lie in memory that the
  /// host can read. The outputs are complete in the order of the lane's stream.
  virtual void on_host(std::span<const Segment> segments, std::size_t each, const HostWork& work) = 0;
};

}  // namespace hora
