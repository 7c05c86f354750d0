// SPDX-License-Identifier: Apache-2.0
#include "core/backend/cuda/gpu.h"

#include "core/backend/cuda/capture.h"
#include "core/backend/cuda/cuda_stream.h"
#include "core/backend/cuda/event_pool.h"
#include "core/backend/cuda/graph_request.h"
#include "core/backend/cuda/kernel_module.h"
#include "core/backend/cuda/memory_pool.h"
#include "core/backend/cuda/stream_frees.h"
#include "core/backend/cuda/stream_handle.h"

#include <hora/status.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <mutex>
#include <optional>
#include <utility>

// The owners: memory, events, streams and kernels each keep the primary context, none of them the Gpu. So a
// tensor of a framework's may live in memory from here when Gpu and Runtime are gone, and is freed then.

namespace hora::cuda {
namespace {

constexpr int kPciBits = 16;  // more than the number of a PCI bus or device has

/// The counters of a Gpu's memory report, in bytes. Thread-safe.
struct Counters {
  std::atomic<std::ptrdiff_t> taken{0};
  std::atomic<std::ptrdiff_t> pinned{0};
  std::atomic<std::ptrdiff_t> nccl{0};
};

std::string mebibytes(std::size_t bytes) {
  return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / (1 << 20));
}

/// A pointer's memory, as the driver knows it. A value.
struct Whereabouts {
  unsigned type = 0;  ///< a CUmemorytype; 0: nothing of CUDA's
  int gpu = 0;
  unsigned managed = 0;
};

class DriversGpu final : public CudaGpu {
 public:
  explicit DriversGpu(std::shared_ptr<const PrimaryContext> context)
      : context_(std::move(context)),
        events_(std::make_shared<EventPool>(context_)),
        counters_(std::make_shared<Counters>()),
        frees_(std::make_shared<StreamFrees>(context_)),
        words_(std::make_shared<GraphWords>(context_)) {
    if (context_->attribute(CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED) != 0) pool_.emplace(context_);
  }

  [[nodiscard]] int index() const override { return context_->index(); }

  [[nodiscard]] std::string name() const override {
    std::array<char, 256> text{};
    driver().check(driver().device_get_name(text.data(), text.size(), context_->device()), "cuDeviceGetName",
                   context_->name());
    return text.data();
  }

  [[nodiscard]] std::array<std::byte, 16> identity() const override {
    CUuuid uuid{};
    driver().check(driver().device_get_uuid(&uuid, context_->device()), "cuDeviceGetUuid", context_->name());
    std::array<std::byte, 16> bytes{};
    static_assert(sizeof(uuid.bytes) == sizeof(bytes));
    std::memcpy(bytes.data(), uuid.bytes, sizeof(bytes));
    return bytes;
  }

  [[nodiscard]] std::uint64_t location() const override {
    std::uint64_t address = 0;  // on the PCI bus
    for (const auto part : {CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID,
                            CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID})
      address = address << kPciBits | static_cast<std::uint64_t>(context_->attribute(part));
    return address;
  }

  void check(const void* data, const std::string& which) const override {
    const Whereabouts found = whereabouts(data);
    const bool own = found.type == CU_MEMORYTYPE_DEVICE && found.gpu == index();
    if (own || found.type == CU_MEMORYTYPE_HOST || found.managed != 0) return;
    const std::string where = found.type == CU_MEMORYTYPE_DEVICE ? fmt::format("that of cuda:{}", found.gpu)
                                                                 : "memory of the host's that no GPU reaches";
    throw Error(Code::invalid_argument, fmt::format("{} is said to lie in the memory of {}, but lies in {}",
                                                    which, context_->name(), where));
  }

  [[nodiscard]] std::shared_ptr<Event> mark(void* stream) override {
    const CurrentContext current(*context_);
    refuse_capture(driver(), static_cast<CUstream>(stream), "use another stream, or end the capture");
    return events_->mark(static_cast<CUstream>(stream));
  }

  [[nodiscard]] bool is_captured(void* stream) const override {
    const CurrentContext current(*context_);
    return capture_of(driver(), static_cast<CUstream>(stream)).has_value();
  }

  [[nodiscard]] std::shared_ptr<GraphRequest> request_in_graph(void* stream) override {
    if (pool_) pool_->let_no_stream_wait();
    return cuda::request_in_graph(context_, *words_, static_cast<CUstream>(stream));
  }

  [[nodiscard]] std::unique_ptr<Stream> make_stream() override {
    return make_cuda_stream(context_, kernels(), events_);
  }

  [[nodiscard]] std::shared_ptr<std::byte> allocate(std::size_t bytes) override {
    const CurrentContext current(*context_);
    const std::size_t whole = bytes == 0 ? 1 : bytes;
    CUdeviceptr data = 0;
    check_allocation(driver().mem_alloc(&data, whole), "cuMemAlloc", whole);
    auto memory =
        owned(data, whole, [](const CudaDriver& driver, CUdeviceptr each) { driver.mem_free(each); });
    clear(context_, data, whole);
    return memory;
  }

  [[nodiscard]] std::shared_ptr<std::byte> allocate_on(void* stream, std::size_t bytes) override {
    const CurrentContext current(*context_);
    const auto handle = static_cast<CUstream>(stream);
    refuse_capture(driver(), handle, "allocate before the capture, or after it");
    return allocate_in_order(handle, handle, bytes);
  }

  [[nodiscard]] std::shared_ptr<std::byte> allocate_between(Stream& own, void* stream,
                                                            std::size_t bytes) override {
    const CurrentContext current(*context_);
    return allocate_in_order(dynamic_cast<CudaStream&>(own).handle(), static_cast<CUstream>(stream), bytes);
  }

  [[nodiscard]] std::shared_ptr<std::byte> allocate_pinned(std::size_t bytes) override {
    const CurrentContext current(*context_);
    const std::size_t whole = bytes == 0 ? 1 : bytes;
    void* data = nullptr;
    const CUresult result =
        driver().mem_host_alloc(&data, whole, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP);
    if (result == CUDA_ERROR_OUT_OF_MEMORY) {
      throw Error(
          Code::unavailable,
          fmt::format("cannot pin {} of the host's memory for copies to and from {}: {}; use less of it, or "
                      "raise the job's limit of memory",
                      mebibytes(whole), context_->name(), driver().text(result)));
    }
    driver().check(result, "cuMemHostAlloc", context_->name());
    counters_->pinned += static_cast<std::ptrdiff_t>(whole);
    return {static_cast<std::byte*>(data),
            [context = context_, counters = counters_, whole](std::byte* each) {
              in_context(*context, [&] { context->driver().mem_free_host(each); });
              counters->pinned -= static_cast<std::ptrdiff_t>(whole);
            }};
  }

  [[nodiscard]] std::shared_ptr<std::byte> pin(std::shared_ptr<std::byte> memory,
                                               std::size_t bytes) override {
    const CurrentContext current(*context_);
    if (driver().mem_host_register(memory.get(), bytes, CU_MEMHOSTREGISTER_PORTABLE) != CUDA_SUCCESS)
      return memory;
    counters_->pinned += static_cast<std::ptrdiff_t>(bytes);
    std::byte* data = memory.get();
    return {data,
            [context = context_, counters = counters_, kept = std::move(memory), bytes](std::byte* each) {
              in_context(*context, [&] { context->driver().mem_host_unregister(each); });
              counters->pinned -= static_cast<std::ptrdiff_t>(bytes);
            }};
  }

  void finish() override {
    const CurrentContext current(*context_);
    driver().check(driver().ctx_synchronize(), "cuCtxSynchronize", context_->name());
  }

  [[nodiscard]] GpuMemory memory() const override {
    const auto whole = [](const std::atomic<std::ptrdiff_t>& bytes) {
      return static_cast<std::size_t>(std::max<std::ptrdiff_t>(bytes, 0));
    };
    return {whole(counters_->taken), whole(counters_->pinned), whole(counters_->nccl)};
  }

  [[nodiscard]] const std::shared_ptr<const PrimaryContext>& context() const override { return context_; }

  [[nodiscard]] std::size_t free_memory() const override {
    const CurrentContext current(*context_);
    return free_and_total().first;
  }

  void count_taken(std::ptrdiff_t bytes) override { counters_->taken += bytes; }
  void count_nccl(std::ptrdiff_t bytes) override { counters_->nccl += bytes; }

 private:
  [[nodiscard]] const CudaDriver& driver() const { return context_->driver(); }

  [[nodiscard]] Whereabouts whereabouts(const void* data) const {
    const CurrentContext current(*context_);
    Whereabouts found;
    std::array which{CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                     CU_POINTER_ATTRIBUTE_IS_MANAGED};
    std::array<void*, 3> to{&found.type, &found.gpu, &found.managed};
    driver().check(driver().pointer_get_attributes(which.size(), which.data(), to.data(),
                                                   reinterpret_cast<CUdeviceptr>(data)),
                   "cuPointerGetAttributes", context_->name());
    return found;
  }

  [[nodiscard]] std::pair<std::size_t, std::size_t> free_and_total() const {
    std::size_t free = 0;
    std::size_t total = 0;
    driver().check(driver().mem_get_info(&free, &total), "cuMemGetInfo", context_->name());
    return {free, total};
  }

  void check_allocation(CUresult result, const char* call, std::size_t bytes) const {
    if (result != CUDA_ERROR_OUT_OF_MEMORY) return driver().check(result, call, context_->name());
    const auto [free, total] = free_and_total();
    throw Error(
        Code::unavailable,
        fmt::format("cannot take {} of the memory of {}: {} of {} are free; use less of it, make the fusion "
                    "buffers smaller with HORA_GPU_FUSION_THRESHOLD, or let the framework give back what it "
                    "keeps, as with torch.cuda.empty_cache()",
                    mebibytes(bytes), context_->name(), mebibytes(free), mebibytes(total)));
  }

  /// For what is on the one stream from now on, until what will be on the other is done.
  std::shared_ptr<std::byte> allocate_in_order(CUstream from, CUstream until, std::size_t bytes) {
    const std::size_t whole = bytes == 0 ? 1 : bytes;
    CUdeviceptr data = 0;
    if (!pool_) {
      check_allocation(driver().mem_alloc(&data, whole), "cuMemAlloc", whole);
      return owned(data, whole, [](const CudaDriver& driver, CUdeviceptr each) { driver.mem_free(each); });
    }
    frees_->go_on(from);
    check_allocation(pool_->allocate(&data, whole, from), "cuMemAllocFromPoolAsync", whole);
    return owned(data, whole,
                 [until, frees = frees_](const CudaDriver&, CUdeviceptr each) { frees->free(until, each); });
  }

  /// Memory that is given back by `release`, which the context is the current one for.
  template <typename Release>
  std::shared_ptr<std::byte> owned(CUdeviceptr data, std::size_t bytes, Release release) {
    counters_->taken += static_cast<std::ptrdiff_t>(bytes);
    return {reinterpret_cast<std::byte*>(data),
            [context = context_, counters = counters_, bytes, release](auto* each) {
              in_context(*context, [&] { release(context->driver(), reinterpret_cast<CUdeviceptr>(each)); });
              counters->taken -= static_cast<std::ptrdiff_t>(bytes);
            }};
  }

  std::shared_ptr<const KernelModule> kernels() {
    const std::lock_guard lock(mutex_);
    if (!kernels_) kernels_ = std::make_shared<const KernelModule>(context_);
    return kernels_;
  }

  const std::shared_ptr<const PrimaryContext> context_;
  const std::shared_ptr<EventPool> events_;
  const std::shared_ptr<Counters> counters_;
  const std::shared_ptr<StreamFrees> frees_;
  const std::shared_ptr<GraphWords> words_;
  std::optional<MemoryPool> pool_;  ///< nothing: the driver has none for this GPU
  std::mutex mutex_;
  std::shared_ptr<const KernelModule> kernels_;  ///< with the mutex; null until a stream is made
};

}  // namespace

std::shared_ptr<CudaGpu> open_cuda_gpu(const CudaDriver& driver, int index) {
  const int count = count_gpus(driver);
  if (index < 0 || index >= count) {
    throw Error(
        Code::invalid_argument,
        fmt::format("there is no cuda:{}: this process may use {} {}; see what CUDA_VISIBLE_DEVICES says",
                    index, count, count == 1 ? "GPU" : "GPUs"));
  }
  return std::make_shared<DriversGpu>(std::make_shared<const PrimaryContext>(driver, index));
}

}  // namespace hora::cuda
