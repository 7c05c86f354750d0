// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/cuda/event_pool.h"
#include "core/backend/cuda/primary_ctx.h"

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace hora::cuda {

/// Words of the host's memory that kernels on one stream write to. One comes back when its last pointer goes,
/// maybe before the kernels have run; so those that came back are used again only when all that the stream
/// had been given by then has been done. `take`: *engine only*; words come back on any thread.
class FlagPool : public std::enable_shared_from_this<FlagPool> {
 public:
  FlagPool(std::shared_ptr<const PrimaryContext> context, std::shared_ptr<EventPool> events);
  ~FlagPool();
  FlagPool(const FlagPool&) = delete;
  FlagPool& operator=(const FlagPool&) = delete;

  /// A word that is 0. Throws Error(internal).
  [[nodiscard]] std::shared_ptr<std::uint32_t> take(CUstream stream);

 private:
  void refill(CUstream stream);
  void begin_to_wait(CUstream stream);
  void reclaim();
  void add_page();
  void give_back(std::uint32_t* word) noexcept;

  const std::shared_ptr<const PrimaryContext> context_;
  const std::shared_ptr<EventPool> events_;
  std::vector<void*> pages_;
  std::vector<std::uint32_t*> free_;
  std::vector<std::uint32_t*> waiting_;  ///< until `done_` is reached
  std::shared_ptr<Event> done_;
  std::mutex mutex_;
  std::vector<std::uint32_t*> returned_;  ///< with the mutex
};

}  // namespace hora::cuda
