// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/comm/lane.h"
#include "core/gpu/gpu_lanes.h"
#include "core/runtime/completion.h"
#include "core/runtime/finisher.h"

#include <memory>
#include <string>
#include <vector>

namespace hora {

/// The completion of batches on a GPU: one is done when the lane's stream has reached the mark behind its
/// work. The engine leaves it to the completer as a Flight, and goes on. Users' streams can wait for the mark
/// at once. Refers to its constructor's arguments, which must outlive it and its flights. *Engine only.*
class GpuCompletion final : public Completion {
 public:
  GpuCompletion(Lane& lane, Finisher& finisher, GpuSide gpu)
      : lane_(lane), finisher_(finisher), gpu_(std::move(gpu)) {}

  void make_room() override { gpu_.completer->make_room(); }
  void begin(const std::vector<BatchItem>& items, bool keeps_memory) override;
  void complete(RunningBatch batch, const Status& failure) override;
  [[nodiscard]] std::shared_ptr<std::byte> stand_in(const Request& request) override;
  [[nodiscard]] void* allocate(BatchItem& item, const std::vector<std::int64_t>& shape) override;
  void on_host(std::span<const Segment> segments, std::size_t each, const HostWork& work) override;

 private:
  void launch(RunningBatch& batch, const Status& failure);
  bool let_graphs_go_on(const std::vector<BatchItem>& items);

  Lane& lane_;
  Finisher& finisher_;
  GpuSide gpu_;
  std::vector<std::shared_ptr<Event>> inputs_;  // of the batch that began last: before them it cannot begin
};

}  // namespace hora
