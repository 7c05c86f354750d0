// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/comm/collective.h"

#include <mutex>
#include <optional>
#include <vector>

namespace hora {

/// Ends the calls that the engine may be blocked in, when a rank is lost: one of the collectives that it has
/// told of. Knows for others whether they get on. A collective that the engine tells of after the abort
/// broadcaster has rung is aborted at once. Thread-safe.
class AbortBroadcaster {
 public:
  /// The collective must live until it is forgotten.
  void watch(Collective& collective);
  void forget(const Collective& collective);
  void ring(const Status& why);
  /// Grows when something has moved in one of them, as long as none is forgotten.
  [[nodiscard]] std::uint64_t progress() const;

 private:
  mutable std::mutex mutex_;
  std::vector<Collective*> watched_;
  std::optional<Status> rung_;
};

}  // namespace hora
