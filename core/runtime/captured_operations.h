// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/device/gpu.h"
#include "core/runtime/graph_watch.h"

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace hora {

/// Throws Error(invalid_argument) if an operation cannot be part of any CUDA graph: the ranks must agree on
/// the size of its output, its result is for the host (`check_finite`), or this rank has no tensor for it.
void check_capturable(const Entry& entry);

/// The operations of a job that are captured into CUDA graphs. A capture puts a request into the graph
/// (GraphRequest), and each run of the graph makes that request. A thread sees it (GraphWatch), and submits
/// the operations again, as a user would. So all ranks agree on them, they travel with others, and they are
/// timed and reported as always. The graph needs no thread of the user's, and stays usable when the ranks of
/// an elastic job change. Thread-safe.
class CapturedOperations {
 public:
  CapturedOperations() : watch_(std::make_shared<GraphWatch>()) {}
  ~CapturedOperations() { close(); }
  CapturedOperations(const CapturedOperations&) = delete;
  CapturedOperations& operator=(const CapturedOperations&) = delete;

  /// Sets how operations are submitted again. Before the first `capture`.
  void submit_by(GraphWatch::Submit submit) { watch_->submit_by(std::move(submit)); }
  /// From now on nothing is submitted again, and operations of graphs fail. Waits for a submission that is
  /// under way. Idempotent.
  void close();

  /// Captures operations that belong together into the graph into which their stream, the same for all, is
  /// being captured. A Handle has `wait_on`, for streams of the same capture; to wait on the host throws
  /// Error(invalid_argument). An entry's `done` is called by the first `wait_on`, or when the graph is gone.
  /// The entries have passed `check_capturable`.
  std::vector<Handle> capture(const std::shared_ptr<Gpu>& gpu, std::vector<CapturedOperation> group);
  /// The next number, from 1 on, for captured operations without a name of a process set.
  [[nodiscard]] std::uint64_t next_number(int process_set);
  /// Throws the error of the first operation that has failed in a graph since the last call.
  void check() { watch_->check(); }
  /// As GraphWatch's.
  void forget_failures() { watch_->forget_failures(); }
  /// Whether there may be graphs with operations.
  [[nodiscard]] bool any() const { return any_.load(std::memory_order_acquire); }

 private:
  const std::shared_ptr<GraphWatch> watch_;
  std::mutex numbers_mutex_;
  std::map<int, std::uint64_t> numbers_;  // by process set
  std::once_flag started_;
  std::atomic<bool> any_{false};
  std::thread thread_;
};

}  // namespace hora
