// SPDX-License-Identifier: Apache-2.0
#include "core/backend/cuda/flag_pool.h"

#include <utility>

namespace hora::cuda {
namespace {

constexpr std::size_t kPageWords = 1024;

}  // namespace

FlagPool::FlagPool(std::shared_ptr<const PrimaryContext> context, std::shared_ptr<EventPool> events)
    : context_(std::move(context)), events_(std::move(events)) {}

// The driver's result of a release is not looked at: at the end of a process the driver may be gone.
FlagPool::~FlagPool() {
  in_context(*context_, [&] {
    for (void* page : pages_) context_->driver().mem_free_host(page);
  });
}

std::shared_ptr<std::uint32_t> FlagPool::take(CUstream stream) {
  if (free_.empty()) refill(stream);
  std::uint32_t* word = free_.back();
  free_.pop_back();
  *word = 0;
  return {word, [self = shared_from_this()](std::uint32_t* each) { self->give_back(each); }};
}

void FlagPool::refill(CUstream stream) {
  reclaim();
  begin_to_wait(stream);  // while those that are free are used: so that others are when they have been
  if (free_.empty()) reclaim();
  if (free_.empty()) add_page();
}

void FlagPool::begin_to_wait(CUstream stream) {
  if (waiting_.empty()) {
    const std::lock_guard lock(mutex_);
    std::swap(waiting_, returned_);
    returned_.reserve(pages_.size() * kPageWords);
  }
  if (!waiting_.empty() && done_ == nullptr) done_ = events_->mark(stream);
}

/// The words that nothing writes to any more become free. There are no other free ones.
void FlagPool::reclaim() {
  if (done_ == nullptr || !done_->reached()) return;
  done_ = nullptr;
  std::swap(free_, waiting_);
}

void FlagPool::add_page() {
  const CurrentContext current(*context_);
  const CudaDriver& driver = context_->driver();
  const std::size_t words = (pages_.size() + 1) * kPageWords;
  pages_.reserve(pages_.size() + 1);
  free_.reserve(words);
  {
    const std::lock_guard lock(mutex_);
    returned_.reserve(words);  // so that giving back needs no memory
  }
  void* page = nullptr;
  driver.check(driver.mem_host_alloc(&page, kPageWords * sizeof(std::uint32_t),
                                     CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP),
               "cuMemHostAlloc");
  pages_.push_back(page);
  for (std::size_t i = 0; i < kPageWords; ++i) free_.push_back(static_cast<std::uint32_t*>(page) + i);
}

void FlagPool::give_back(std::uint32_t* word) noexcept {
  const std::lock_guard lock(mutex_);
  returned_.push_back(word);
}

}  // namespace hora::cuda
