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

/// Where ranks that are threads meet: each puts down where its buffers lie; the last to arrive does the work
/// for all; then all go. The simplest collective that is right, and so the reference for the others.
///
/// Protocol: one mutex guards everything. `round_` counts meetings; a rank waits until the round it arrived
/// in is over. The work runs under the mutex, while all others sleep, so nobody's buffers are in use. An
/// abort sets `status_`, which every waiting and every later call throws. Thread-safe.
class Meeting {
 public:
  explicit Meeting(int size) : postings_(static_cast<std::size_t>(size)) {}

  /// The data that one rank puts down: its segments, or its input and output.
  struct Posting {
    std::span<const Segment> segments;
    const void* input = nullptr;
    void* output = nullptr;
  };
  using Work = std::function<void(const std::vector<Posting>&)>;

  void meet(int rank, const Posting& posting, const Work& work);
  void abort(const Status& why);
  [[nodiscard]] int size() const { return static_cast<int>(postings_.size()); }

 private:
  std::mutex mutex_;
  std::condition_variable over_;
  std::vector<Posting> postings_;
  int arrived_ = 0;
  std::uint64_t round_ = 0;
  std::optional<Status> status_;
};

/// `rank`'s view of the meeting.
std::unique_ptr<Collective> make_local_collective(std::shared_ptr<Meeting> meeting, int rank);

}  // namespace hora::local
