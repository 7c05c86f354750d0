// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/device/graph_request.h"

#include <cstddef>
#include <memory>
#include <utility>

namespace hora {

/// One run of the operations of a graph's request, until the graph may go on. The engine calls `launched`;
/// others read `has_released` when the operations have ended.
class GraphRun {
 public:
  GraphRun(std::shared_ptr<const GraphRequest> request, std::size_t operations)
      : request_(std::move(request)), left_(operations) {}

  /// The work of one of the operations is on `own`, which is the same stream for all of them. Behind the work
  /// of the last one, the graph goes on. Throws Error(internal) if the device has failed.
  void launched(Stream& own) {
    if (--left_ > 0) return;
    request_->release(own);
    released_ = true;
  }
  [[nodiscard]] bool has_released() const { return released_; }

 private:
  const std::shared_ptr<const GraphRequest> request_;
  std::size_t left_;
  bool released_ = false;
};

}  // namespace hora
