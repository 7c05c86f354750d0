// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/device/graph_request.h"
#include "core/runtime/graph_run.h"

#include <hora/hora.h>

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace hora {

/// An operation that is captured into a graph. A value.
struct CapturedOperation {
  Entry entry;
  std::vector<std::int64_t> shape;  ///< of the output
  void* written = nullptr;          ///< the memory that it writes
  std::size_t bytes = 0;            ///< of that memory
};

/// The operations of one request of a graph. A value.
struct CapturedGroup {
  std::shared_ptr<const GraphRequest> request;
  std::vector<CapturedOperation> operations;
  std::vector<std::shared_ptr<void>> kept = {};  ///< until the graph is gone
};

/// Looks whether graphs have made requests, and submits their operations, each time that they have. One
/// thread calls `run`, and may outlive the job: a graph that runs after the job must not wait for ever.
///
/// The thread reads the words of all requests, and sleeps in between: 20 µs within 1 ms after it has found
/// something, 50 µs within a second, and 1 ms later than that.
///
/// An operation that fails cannot throw an exception in the run of a graph. The error is logged, `check`
/// throws it, and the graph goes on. If the operation's work was not given to the GPU, its output is filled
/// with NaN, if its elements are floats of 16 to 64 bits or complex. If the work fails on the GPU, the graph
/// may have gone on before, and the output has undefined values. Thread-safe.
class GraphWatch {
 public:
  /// Submits operations again. Throws Error.
  using Submit = std::function<std::vector<Handle>(std::vector<Entry>, const std::shared_ptr<GraphRun>&)>;

  GraphWatch();
  ~GraphWatch();
  GraphWatch(const GraphWatch&) = delete;
  GraphWatch& operator=(const GraphWatch&) = delete;

  /// Sets how operations are submitted again; empty: they fail, as the job is over. Waits for a submission
  /// that is under way.
  void submit_by(Submit submit);
  void add(CapturedGroup group);
  /// Throws the error of the first operation that has failed since the last call.
  void check();
  /// Forgets that error, and all errors of runs that have begun before. Their generation has ended.
  void forget_failures();

  /// Returns when `close` has been called and all graphs are gone. `own`: a stream for outputs that are
  /// filled with NaN, and for graphs that go on then.
  void run(Stream& own);
  /// Lets `run` return. Returns whether it does so at once.
  bool close();

 private:
  struct Course;  // a group, and how its runs go

  bool take_added(std::vector<std::unique_ptr<Course>>& courses);
  bool advance(Course& course, Stream& own);
  bool begin(Course& course, Stream& own);
  bool end(Course& course, Stream& own);
  void fail(const Status& status, std::uint64_t generation);

  std::mutex submitting_;  // comes before all locks of the job, from the first graph on
  Submit submit_;          // with it
  std::mutex mutex_;       // comes last
  std::condition_variable changed_;
  std::vector<std::unique_ptr<Course>> added_;  // with the mutex, and so are those that follow
  std::size_t watched_ = 0;                     // courses that the thread has taken
  bool closed_ = false;
  std::optional<Status> failure_;
  std::atomic<std::uint64_t> generation_{0};  // how often failures were forgotten
  std::atomic<bool> has_failed_{false};       // `failure_` is there: for a look without the mutex
};

}  // namespace hora
