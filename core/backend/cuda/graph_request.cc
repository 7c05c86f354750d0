// SPDX-License-Identifier: Apache-2.0
#include "core/backend/cuda/graph_request.h"

#include "core/backend/cuda/capture.h"
#include "core/backend/cuda/cuda_stream.h"

#include <hora/status.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <utility>

namespace hora::cuda {
namespace {

constexpr std::size_t kPageBytes = 4096;

CUstreamBatchMemOpParams wait_for(const std::uint32_t* word, std::uint32_t value) {
  CUstreamBatchMemOpParams operation{};
  operation.waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
  operation.waitValue.address = reinterpret_cast<CUdeviceptr>(word);
  operation.waitValue.value = value;
  operation.waitValue.flags = CU_STREAM_WAIT_VALUE_EQ;
  return operation;
}

/// Behind a barrier: all that the stream has written before can be read by whoever reads the value.
CUstreamBatchMemOpParams write(const std::uint32_t* word, std::uint32_t value) {
  CUstreamBatchMemOpParams operation{};
  operation.writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
  operation.writeValue.address = reinterpret_cast<CUdeviceptr>(word);
  operation.writeValue.value = value;
  operation.writeValue.flags = CU_STREAM_WRITE_VALUE_DEFAULT;
  return operation;
}

/// `over` becomes true when the graph, all that was instantiated from it, and their runs are gone. The driver
/// calls that on a thread of its own, where nothing of CUDA may be called.
void watch_end(const CudaDriver& driver, CUgraph graph, const std::shared_ptr<std::atomic<bool>>& over) {
  using Watched = std::shared_ptr<std::atomic<bool>>;
  auto watched = std::make_unique<Watched>(over);
  const CUhostFn ended = [](void* data) {
    const std::unique_ptr<Watched> last(static_cast<Watched*>(data));
    (*last)->store(true, std::memory_order_release);
  };
  CUuserObject object = nullptr;
  driver.check(driver.user_object_create(&object, watched.get(), ended, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC),
               "cuUserObjectCreate");
  static_cast<void>(watched.release());  // the object's from now on
  const CUresult result = driver.graph_retain_user_object(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE);
  if (result != CUDA_SUCCESS) driver.user_object_release(object, 1);
  driver.check(result, "cuGraphRetainUserObject");
}

class DriversRequest final : public GraphRequest {
 public:
  DriversRequest(std::shared_ptr<const PrimaryContext> context, const Capture& capture,
                 std::shared_ptr<std::uint32_t> word)
      : context_(std::move(context)), capture_(capture.number), word_(std::move(word)) {
    driver().check(driver().event_create(&made_, CU_EVENT_DISABLE_TIMING), "cuEventCreate", context_->name());
  }
  // The driver's result of a release is not looked at: at the end of a process the driver may be gone.
  ~DriversRequest() override {
    in_context(*context_, [&] { driver().event_destroy(made_); });
  }
  DriversRequest(const DriversRequest&) = delete;
  DriversRequest& operator=(const DriversRequest&) = delete;

  /// Steps 1 and 2, as a part of the graph.
  void put_on(CUstream stream, CUgraph graph) {
    watch_end(driver(), graph, over_);
    std::array operations{wait_for(word_.get(), 0), write(word_.get(), 1)};
    put(stream, operations);
    driver().check(driver().event_record(made_, stream), "cuEventRecord", context_->name());
  }

  [[nodiscard]] bool is_made() const override {
    return std::atomic_ref(*word_).load(std::memory_order_acquire) == 1;
  }

  void hold_up(void* stream) const override {
    const CurrentContext current(*context_);
    const auto handle = static_cast<CUstream>(stream);
    const auto capture = capture_of(driver(), handle);
    if (!capture || capture->number != capture_) {
      throw Error(
          Code::invalid_argument,
          "the operation is part of a CUDA graph: wait for it within the same capture, and before that "
          "ends");
    }
    // The stream may be another one of the graph: what waits comes after what has made the request.
    driver().check(driver().stream_wait_event(handle, made_, CU_EVENT_WAIT_DEFAULT), "cuStreamWaitEvent",
                   context_->name());
    std::array operations{wait_for(word_.get(), 0)};
    put(handle, operations);
  }

  void release(Stream& own) const override {
    const CurrentContext current(*context_);
    std::array operations{write(word_.get(), 0)};
    put(dynamic_cast<CudaStream&>(own).handle(), operations);
  }

  [[nodiscard]] bool is_over() const override { return over_->load(std::memory_order_acquire); }

 private:
  [[nodiscard]] const CudaDriver& driver() const { return context_->driver(); }

  template <std::size_t count>
  void put(CUstream stream, std::array<CUstreamBatchMemOpParams, count>& operations) const {
    driver().check(driver().stream_batch_mem_op(stream, count, operations.data(), 0), "cuStreamBatchMemOp",
                   context_->name());
  }

  const std::shared_ptr<const PrimaryContext> context_;
  const cuuint64_t capture_;
  const std::shared_ptr<std::uint32_t> word_;
  const std::shared_ptr<std::atomic<bool>> over_ = std::make_shared<std::atomic<bool>>(false);
  CUevent made_ = nullptr;  ///< the point of the graph at which the request has been made
};

}  // namespace

// The driver's result of a release is not looked at: at the end of a process the driver may be gone.
GraphWords::~GraphWords() {
  in_context(*context_, [&] {
    for (const auto& page : pages_) context_->driver().mem_host_unregister(page.get());
  });
}

std::shared_ptr<std::uint32_t> GraphWords::take() {
  const std::lock_guard lock(mutex_);
  if (free_.empty()) add_page();
  std::uint32_t* word = free_.back();
  free_.pop_back();
  *word = 0;
  return {word, [self = shared_from_this()](std::uint32_t* each) {
            const std::lock_guard back(self->mutex_);
            self->free_.push_back(each);
          }};
}

/// With the mutex.
void GraphWords::add_page() {
  constexpr std::size_t kWords = kPageBytes / sizeof(std::uint32_t);
  std::unique_ptr<std::uint32_t, FreePage> page(
      static_cast<std::uint32_t*>(std::aligned_alloc(kPageBytes, kPageBytes)));
  if (!page) throw Error(Code::unavailable, "there is no memory for the requests of a CUDA graph");
  std::fill_n(page.get(), kWords, 0U);
  pages_.reserve(pages_.size() + 1);
  free_.reserve((pages_.size() + 1) * kWords);  // so that giving back needs no memory
  const CudaDriver& driver = context_->driver();
  driver.check(driver.mem_host_register(page.get(), kPageBytes,
                                        CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP),
               "cuMemHostRegister");
  for (std::size_t i = 0; i < kWords; ++i) free_.push_back(page.get() + i);
  pages_.push_back(std::move(page));
}

std::shared_ptr<GraphRequest> request_in_graph(std::shared_ptr<const PrimaryContext> context,
                                               GraphWords& words, CUstream stream) {
  const CurrentContext current(*context);
  const auto capture = capture_of(context->driver(), stream);
  if (!capture)
    throw Error(Code::invalid_argument, "the stream is not being captured into a CUDA graph any more");
  auto request = std::make_shared<DriversRequest>(std::move(context), *capture, words.take());
  request->put_on(stream, capture->graph);
  return request;
}

}  // namespace hora::cuda
