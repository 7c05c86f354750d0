// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/comm/lane.h"
#include "core/runtime/completion.h"
#include "core/runtime/finisher.h"

namespace hora {

/// The completion of batches in the host's memory: one is done when its collective returns. Refers to its
/// constructor's arguments, which must outlive it. *Engine only.*
class HostCompletion final : public Completion {
 public:
  HostCompletion(Lane& lane, Finisher& finisher) : lane_(lane), finisher_(finisher) {}

  void make_room() override {}
  void begin(const std::vector<BatchItem>& /*items*/, bool /*keeps_memory*/) override {}
  void complete(RunningBatch batch, const Status& failure) override;
  [[nodiscard]] std::shared_ptr<std::byte> stand_in(const Request& request) override;
  [[nodiscard]] void* allocate(BatchItem& item, const std::vector<std::int64_t>& shape) override;
  void on_host(std::span<const Segment> segments, std::size_t each, const HostWork& work) override;

 private:
  Lane& lane_;
  Finisher& finisher_;
};

}  // namespace hora
