// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/cuda/primary_ctx.h"
#include "core/device/stream.h"

#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

namespace hora::cuda {

/// The driver's events of one GPU: one goes back when the last pointer to its Event goes, and is used again.
/// Work that waits for the event then goes on waiting for the point that it was. Thread-safe.
class EventPool : public std::enable_shared_from_this<EventPool> {
 public:
  explicit EventPool(std::shared_ptr<const PrimaryContext> context);
  ~EventPool();
  EventPool(const EventPool&) = delete;
  EventPool& operator=(const EventPool&) = delete;

  /// The point that a stream of this GPU is at. Throws Error(internal).
  [[nodiscard]] std::shared_ptr<Event> mark(CUstream stream);

 private:
  class Point;

  CUevent take();
  void give_back(CUevent event) noexcept;

  const std::shared_ptr<const PrimaryContext> context_;
  std::mutex mutex_;
  std::vector<CUevent> free_;
  std::size_t made_ = 0;
};

}  // namespace hora::cuda
