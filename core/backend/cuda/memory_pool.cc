// SPDX-License-Identifier: Apache-2.0
#include "core/backend/cuda/memory_pool.h"

#include <utility>

namespace hora::cuda {

MemoryPool::MemoryPool(std::shared_ptr<const PrimaryContext> context) : context_(std::move(context)) {
  const CudaDriver& driver = context_->driver();
  CUmemPoolProps wanted{};
  wanted.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  wanted.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  wanted.location.id = context_->device();
  const CurrentContext current(*context_);
  driver.check(driver.mem_pool_create(&pool_, &wanted), "cuMemPoolCreate", context_->name());
}

/// The driver keeps what is still taken until that is freed.
MemoryPool::~MemoryPool() {
  in_context(*context_, [this] { context_->driver().mem_pool_destroy(pool_); });
}

void MemoryPool::let_no_stream_wait() const {
  const CudaDriver& driver = context_->driver();
  int allowed = 0;
  const CurrentContext current(*context_);
  driver.check(
      driver.mem_pool_set_attribute(pool_, CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES, &allowed),
      "cuMemPoolSetAttribute", context_->name());
}

CUresult MemoryPool::allocate(CUdeviceptr* data, std::size_t bytes, CUstream stream) const {
  return context_->driver().mem_alloc_from_pool_async(data, bytes, pool_, stream);
}

}  // namespace hora::cuda
