// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/comm/collective.h"

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

namespace hora::local {

/// The rendezvous of ranks that are threads. Each rank says where its buffers are, and the last one to arrive
/// does the work for all. It is the simplest collective that is right, and so the reference for the others.
///
/// Protocol: one mutex guards everything. `round_` counts the rounds; a rank waits until the round it arrived
/// in is over. The work runs under the mutex, while all others sleep, so nobody's buffers are in use. An
/// abort sets `status_`, which every waiting and every later call throws. Thread-safe.
class Rendezvous {
 public:
  explicit Rendezvous(int size) : buffers_(static_cast<std::size_t>(size)) {}

  /// The buffers of one rank: its segments, or its input and output.
  struct Buffers {
    std::span<const Segment> segments;
    const void* input = nullptr;
    void* output = nullptr;
  };
  using Work = std::function<void(const std::vector<Buffers>&)>;

  /// Returns when the last rank has arrived and `work` is done. All ranks give work that does the same.
  void arrive_and_wait(int rank, const Buffers& own, const Work& work);
  void abort(const Status& why);
  [[nodiscard]] int size() const { return static_cast<int>(buffers_.size()); }

 private:
  std::mutex mutex_;
  std::condition_variable over_;
  std::vector<Buffers> buffers_;
  int arrived_ = 0;
  std::uint64_t round_ = 0;
  std::optional<Status> status_;
};

/// `rank`'s view of the rendezvous.
std::unique_ptr<Collective> make_local_collective(std::shared_ptr<Rendezvous> rendezvous, int rank);

}  // namespace hora::local
