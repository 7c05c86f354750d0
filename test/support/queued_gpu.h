// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/nccl_module.h"

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

namespace hora {

class QueuedGraph;

/// A stream of the user's, for Entry::stream: the work that has been put on it so far is done when the gate
/// is open. Outlives all that wait for it.
class Gate {
 public:
  void open();
  /// More work has been put on it, which is done when it is open again.
  void close();
  /// The work on this stream has broken the GPU. A caller that looks at it then gets an error; a stream that
  /// is to wait for it gets an error at each call.
  void break_gpu();
  void wait() const;
  /// Whether anybody has begun to wait.
  [[nodiscard]] bool is_awaited() const;
  [[nodiscard]] bool is_open() const;
  [[nodiscard]] bool is_broken() const;
  /// Into which the stream is being captured; null: it is not.
  [[nodiscard]] QueuedGraph* graph() const { return graph_; }

 private:
  friend class QueuedGraph;
  std::atomic<QueuedGraph*> graph_{nullptr};
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  mutable bool awaited_ = false;
  bool open_ = false;
  bool broken_ = false;
};

/// A graph that is captured on a user's stream, until `end`. It consists of requests, and of points that wait
/// for them.
class QueuedGraph {
 public:
  explicit QueuedGraph(Gate& stream) : stream_(stream) { stream_.graph_ = this; }
  ~QueuedGraph();
  QueuedGraph(const QueuedGraph&) = delete;
  QueuedGraph& operator=(const QueuedGraph&) = delete;

  std::shared_ptr<GraphRequest> add_request();
  void end() { stream_.graph_ = nullptr; }
  /// Runs it on this thread. `before_request`, `after_wait`: what the graph has before each request and after
  /// each point.
  void run(const std::function<void()>& before_request = {}, const std::function<void()>& after_wait = {});

 private:
  class Request;
  struct Part {
    std::shared_ptr<Request> request;
    bool waits;
  };
  Gate& stream_;
  std::vector<Part> parts_;
};

/// A GPU for tests of what is made for any: its memory is the host's, and each of its streams a thread that
/// does what it was given, in order, when it comes to it. So what does not wait for it reads too early, and
/// shows. A user's stream is null, on which all is done, or a Gate.
std::shared_ptr<Gpu> make_queued_gpu(int index = 0);
/// Work of any kind, in its turn, on a stream of such a GPU.
void put_on_queue(Stream& stream, std::function<void()> work);

/// A module whose GPUs, four, are such ones, and whose NCCL moves tensors between ranks that are threads: its
/// collectives are work on the stream, and nothing but NcclLane::abort ends them. There are no splits.
const NcclModule& queued_nccl();
/// Lets its connections wait until `let_go`, or this object ends.
class HeldConnections {
 public:
  HeldConnections();
  ~HeldConnections() { let_go(); }
  HeldConnections(const HeldConnections&) = delete;
  HeldConnections& operator=(const HeldConnections&) = delete;
  static void let_go();
};
/// How many collectives it has been given.
int queued_nccl_calls();

}  // namespace hora
