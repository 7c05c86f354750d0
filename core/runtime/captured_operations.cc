// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/captured_operations.h"

#include "core/base/thread.h"
#include "core/runtime/handle.h"

#include <fmt/format.h>

#include <utility>

namespace hora {
namespace {

[[noreturn]] void refuse_to_capture(const Entry& entry, const char* why) {
  throw Error(Code::invalid_argument,
              fmt::format("'{}' cannot be part of a CUDA graph: {}", entry.name, why));
}

/// The end of an operation, for those who captured it.
class EndInGraph final : public Event, public Helper {
 public:
  EndInGraph(CapturedOperation operation, std::shared_ptr<const GraphRequest> request)
      : name_(operation.entry.name),
        result_{{}, std::move(operation.shape)},
        done_(std::move(operation.entry.done)),
        request_(std::move(request)) {}
  ~EndInGraph() override { end(); }
  EndInGraph(const EndInGraph&) = delete;
  EndInGraph& operator=(const EndInGraph&) = delete;

  static Handle handle_of(const std::shared_ptr<EndInGraph>& end) {
    auto state = std::make_shared<Handle::State>(end);
    state->is_in_graph = true;
    end->state_ = state;
    state->launch(end->result_, end);
    return Handle(std::move(state));
  }

  [[nodiscard]] bool reached() const override { return false; }

  void hold_up(void* stream) const override {
    request_->hold_up(stream);
    end();
  }

  void help(const Handle::State& /*wanted*/, TimePoint /*deadline*/) override {
    throw Error(
        Code::invalid_argument,
        fmt::format("'{}' is part of a CUDA graph, and runs when the graph does: a stream of the graph "
                    "can wait for it during the capture (wait_on, synchronize), the host cannot",
                    name_));
  }

 private:
  /// Gives the memory back: later parts of the graph may use it again.
  void end() const {
    std::call_once(ended_, [this] {
      if (const auto done = std::exchange(done_, {})) done(result_);  // and what it owns goes
      if (const auto state = state_.lock()) state->set(result_);
    });
  }

  const std::string name_;
  const Result result_;
  mutable std::function<void(const Result&)> done_;  // until the end
  const std::shared_ptr<const GraphRequest> request_;
  std::weak_ptr<Handle::State> state_;
  mutable std::once_flag ended_;
};

}  // namespace

void check_capturable(const Entry& entry) {
  if (sizes_its_output(entry.operation) && !entry.output_rows) {
    refuse_to_capture(
        entry,
        "the ranks agree on the size of its output in each run, and a graph has fixed sizes; use "
        "an operation with a fixed output, or submit it before the capture");
  }
  if (entry.absent || !entry.failed_with.empty()) {
    refuse_to_capture(
        entry,
        "this rank has no tensor for it now, and would have none in any run; capture a step that "
        "has all gradients, and freeze parameters that have none (requires_grad_(False))");
  }
  if (entry.check_finite) {
    refuse_to_capture(entry,
                      "check_finite gives each result to the host, which takes no part in a graph; leave it "
                      "out, and look at the reduced gradients in the graph");
  }
}

void CapturedOperations::close() {
  watch_->submit_by({});
  const bool ends = watch_->close();
  if (!thread_.joinable()) return;
  if (ends) {
    thread_.join();
  } else {
    thread_.detach();
  }
}

std::uint64_t CapturedOperations::next_number(int process_set) {
  const std::lock_guard lock(numbers_mutex_);
  return ++numbers_[process_set];
}

std::vector<Handle> CapturedOperations::capture(const std::shared_ptr<Gpu>& gpu,
                                                std::vector<CapturedOperation> group) {
  std::call_once(started_, [&] {
    thread_ =
        start_thread("watches CUDA graphs", [watch = watch_, own = gpu->make_stream()] { watch->run(*own); });
  });
  CapturedGroup captured{gpu->request_in_graph(group.front().entry.stream), {}};
  std::vector<Handle> handles;
  handles.reserve(group.size());
  for (auto& operation : group) {
    const auto end = std::make_shared<EndInGraph>(operation, captured.request);
    captured.kept.push_back(end);  // it holds the operation's memory until somebody waits for it
    handles.push_back(EndInGraph::handle_of(end));
    operation.entry.done = {};
    operation.entry.allocate = {};
    operation.entry.accept = {};
  }
  captured.operations = std::move(group);
  any_.store(true, std::memory_order_release);
  watch_->add(std::move(captured));
  return handles;
}

}  // namespace hora
