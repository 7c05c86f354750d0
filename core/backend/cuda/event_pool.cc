// SPDX-License-Identifier: Apache-2.0
#include "core/backend/cuda/event_pool.h"

#include "core/backend/cuda/capture.h"

#include <hora/status.h>

#include <utility>

namespace hora::cuda {

/// An event of the pool while somebody has it.
class EventPool::Point final : public Event {
 public:
  Point(std::shared_ptr<EventPool> pool, CUevent event) : pool_(std::move(pool)), event_(event) {}
  ~Point() override { pool_->give_back(event_); }
  Point(const Point&) = delete;
  Point& operator=(const Point&) = delete;

  [[nodiscard]] bool reached() const override {
    const CurrentContext current(*pool_->context_);
    const CudaDriver& driver = pool_->context_->driver();
    const CUresult result = driver.event_query(event_);
    if (result == CUDA_ERROR_NOT_READY) return false;
    driver.check(result, "cuEventQuery", pool_->context_->name());
    return true;
  }

  void hold_up(void* stream) const override {
    const CurrentContext current(*pool_->context_);
    const CudaDriver& driver = pool_->context_->driver();
    const auto handle = static_cast<CUstream>(stream);
    refuse_capture(driver, handle,
                   "the operation is not part of the graph, so wait for it before the capture, or after it");
    driver.check(driver.stream_wait_event(handle, event_, CU_EVENT_WAIT_DEFAULT), "cuStreamWaitEvent",
                 pool_->context_->name());
  }

 private:
  const std::shared_ptr<EventPool> pool_;
  const CUevent event_;
};

EventPool::EventPool(std::shared_ptr<const PrimaryContext> context) : context_(std::move(context)) {}

// The driver's result of a release is not looked at: at the end of a process the driver may be gone.
EventPool::~EventPool() {
  in_context(*context_, [&] {
    for (CUevent event : free_) context_->driver().event_destroy(event);
  });
}

std::shared_ptr<Event> EventPool::mark(CUstream stream) {
  const CurrentContext current(*context_);
  const CudaDriver& driver = context_->driver();
  const CUevent event = take();
  const auto point = std::make_shared<Point>(shared_from_this(), event);
  driver.check(driver.event_record(event, stream), "cuEventRecord", context_->name());
  return point;
}

CUevent EventPool::take() {
  const std::lock_guard lock(mutex_);
  if (!free_.empty()) {
    const CUevent event = free_.back();
    free_.pop_back();
    return event;
  }
  free_.reserve(made_ + 1);  // so that giving it back needs no memory
  CUevent event = nullptr;
  const CudaDriver& driver = context_->driver();
  driver.check(driver.event_create(&event, CU_EVENT_DISABLE_TIMING), "cuEventCreate", context_->name());
  ++made_;
  return event;
}

void EventPool::give_back(CUevent event) noexcept {
  const std::lock_guard lock(mutex_);
  free_.push_back(event);
}

}  // namespace hora::cuda
