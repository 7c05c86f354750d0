// SPDX-License-Identifier: Apache-2.0
#include "core/backend/nccl/memory.h"

#include "core/backend/cuda/stream_handle.h"
#include "core/base/memory.h"

#include <hora/status.h>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace hora::nccl {
namespace {

constexpr std::size_t kAlignment = 256;
constexpr std::size_t kPageBytes = std::size_t{2} << 20;  // ncclMemAlloc takes whole pages
constexpr std::size_t kLineBytes = 64;                    // data at other addresses has no symmetric address
constexpr int kOffsetBits = 40;  // of an offset in an allocation; above them is the allocation's ordinal
constexpr std::size_t kMostOffset = (std::size_t{1} << kOffsetBits) - 2 * kLineBytes;

std::byte* allocate_with_nccl(const OpenNccl& nccl, const cuda::CudaGpu& gpu, std::size_t bytes) {
  void* data = nullptr;
  const ncclResult_t result = nccl.functions.mem_alloc(&data, bytes);
  if (result != ncclSuccess) {
    throw Error(
        Code::unavailable,
        fmt::format("cannot take {} bytes of the memory of cuda:{}, of which {} are free: ncclMemAlloc "
                    "failed with {}; use less of it, or let the framework give back what it keeps",
                    bytes, gpu.index(), gpu.free_memory(), nccl.functions.get_error_string(result)));
  }
  return static_cast<std::byte*>(data);
}

}  // namespace

NcclBlock::NcclBlock(std::shared_ptr<const OpenNccl> nccl, std::shared_ptr<cuda::CudaGpu> gpu,
                     std::size_t bytes, bool users)
    : nccl_(std::move(nccl)), gpu_(std::move(gpu)), bytes_(bytes), users_(users) {
  if (nccl_->functions.mem_alloc == nullptr) {
    plain_ = gpu_->allocate(bytes_);
    data_ = plain_.get();
    return;
  }
  const cuda::CurrentContext current(*gpu_->context());
  data_ = allocate_with_nccl(*nccl_, *gpu_, bytes_);
  try {
    taken_ = static_cast<std::ptrdiff_t>((bytes_ + kPageBytes - 1) / kPageBytes * kPageBytes);
    clear(gpu_->context(), reinterpret_cast<CUdeviceptr>(data_), bytes_);
  } catch (...) {
    nccl_->functions.mem_free(data_);
    throw;
  }
  gpu_->count_taken(taken_);
}

NcclBlock::~NcclBlock() {
  if (plain_) return;
  cuda::in_context(*gpu_->context(), [this] { nccl_->functions.mem_free(data_); });
  gpu_->count_taken(-taken_);
}

std::shared_ptr<std::byte> NcclMemory::allocate(std::size_t bytes, bool symmetric) {
  const std::size_t taken = (std::max<std::size_t>(bytes, 1) + kAlignment - 1) / kAlignment * kAlignment;
  if (symmetric) release_unwaited();
  const auto block = std::make_shared<NcclBlock>(nccl_, gpu_, taken, symmetric);
  const std::lock_guard lock(mutex_);
  allocations_[block->data()] = {block, block->bytes(), symmetric ? ++ordinal_ : 0};
  return {block->data(),
          [block, symmetric, own = shared_from_this()](const std::byte*) { own->give_up(block, symmetric); }};
}

// Before the memory is unmapped, which is at once; only users' streams may still use it.
bool NcclMemory::wait_for_all() const {
  const cuda::PrimaryContext& context = *gpu_->context();
  CUresult result = CUDA_ERROR_NOT_READY;
  cuda::in_context(context, [&] { result = context.driver().ctx_synchronize(); });
  return result == CUDA_SUCCESS;
}

// With whoever has put the memory there; what others add meanwhile may be in use.
void NcclMemory::release_unwaited() {
  std::unique_lock lock(mutex_);
  const auto blocks = std::exchange(unwaited_, {});
  lock.unlock();
  if (blocks.empty()) return;
  const bool waited = wait_for_all();
  lock.lock();
  for (const auto& block : blocks) {
    if (waited) {
      block->release();
    } else {
      unwaited_.push_back(block);
    }
  }
  lock.unlock();  // before the memory goes, which may wait for the GPU
  releases_.fetch_add(1, std::memory_order_acq_rel);
}

NcclMemory::~NcclMemory() {
  release_unwaited();
  for (auto& block : unwaited_) keep_for_ever(std::move(block));
}

// The entry goes before the memory: what is allocated next may lie there.
void NcclMemory::give_up(const std::shared_ptr<NcclBlock>& block, bool symmetric) {
  {
    const std::lock_guard lock(mutex_);
    allocations_.erase(block->data());
  }
  if (abandoned_.load(std::memory_order_acquire)) return keep(block);
  if (symmetric) {
    std::unique_lock lock(mutex_);
    unwaited_.push_back(block);
    lock.unlock();
    return release_unwaited();
  }
  block->release();
  releases_.fetch_add(1, std::memory_order_acq_rel);
}

void NcclMemory::keep(std::shared_ptr<const void> memory) {
  const std::lock_guard lock(mutex_);
  kept_.push_back(std::move(memory));
}

std::map<const std::byte*, NcclMemory::Allocation>::const_iterator NcclMemory::allocation_of(
    const void* data) const {
  const auto* byte = static_cast<const std::byte*>(data);
  auto next = allocations_.upper_bound(byte);
  if (next == allocations_.begin()) return allocations_.end();
  --next;
  return byte < next->first + next->second.bytes ? next : allocations_.end();
}

std::shared_ptr<NcclBlock> NcclMemory::find(const void* data) const {
  const std::lock_guard lock(mutex_);
  const auto found = allocation_of(data);
  return found == allocations_.end() ? nullptr : found->second.block.lock();
}

std::uint64_t NcclMemory::symmetric_address(const void* data) const {
  const std::lock_guard lock(mutex_);
  const auto found = allocation_of(data);
  if (found == allocations_.end() || found->second.ordinal == 0) return 0;
  const auto offset = static_cast<std::size_t>(static_cast<const std::byte*>(data) - found->first);
  if (offset % kLineBytes != 0 || found->second.bytes > kMostOffset) return 0;
  return (found->second.ordinal << kOffsetBits) + kLineBytes + offset;
}

}  // namespace hora::nccl
