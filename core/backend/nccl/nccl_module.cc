// SPDX-License-Identifier: Apache-2.0
// The one symbol that libhora_nccl.so exports: hora_module.
#include "core/backend/nccl_module.h"

#include "core/backend/cuda/gpu.h"
#include "core/backend/module.h"
#include "core/backend/nccl/nccl_lane.h"

#include <hora/status.h>

#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

namespace hora::nccl {
namespace {

/// The objects that this process has opened: one driver, one NCCL, and its GPUs as long as they have an
/// owner.
struct Opened {
  std::mutex mutex;
  std::optional<cuda::CudaDriver> driver;
  std::shared_ptr<const OpenNccl> nccl;
  std::map<int, std::weak_ptr<cuda::CudaGpu>> gpus;
  std::map<int, std::weak_ptr<NcclMemory>> memories;  ///< of the GPUs
};

// Never destroyed: memory may be freed until the very end of a process.
Opened& opened() {
  static auto* const opened = new Opened;  // NOLINT(cppcoreguidelines-owning-memory)
  return *opened;
}

/// With the mutex.
const cuda::CudaDriver& driver() {
  auto& driver = opened().driver;
  if (!driver) driver = cuda::load_driver();
  return *driver;
}

int gpus() {
  const std::lock_guard lock(opened().mutex);
  return cuda::count_gpus(driver());
}

std::shared_ptr<Gpu> open_gpu(int index) {
  const std::lock_guard lock(opened().mutex);
  auto& known = opened().gpus[index];
  std::shared_ptr<cuda::CudaGpu> gpu = known.lock();
  if (!gpu) known = gpu = cuda::open_cuda_gpu(driver(), index);
  return gpu;
}

NcclLibrary library(const std::string& named, const std::string& packaged) {
  const std::lock_guard lock(opened().mutex);
  auto& nccl = opened().nccl;
  if (!nccl) nccl = std::make_shared<const OpenNccl>(open_nccl(named, nccl_paths(packaged)));
  return nccl->library;
}

/// With the mutex.
const std::shared_ptr<const OpenNccl>& opened_nccl() {
  if (!opened().nccl) throw Error(Code::internal, "NCCL is used before it has been opened");
  return opened().nccl;
}

NcclId make_id() {
  std::unique_lock lock(opened().mutex);
  const OpenNccl& nccl = *opened_nccl();  // which stays
  lock.unlock();                          // NCCL may look for its network first, which takes long
  ncclUniqueId unique{};
  const ncclResult_t result = nccl.functions.get_unique_id(&unique);
  if (result != ncclSuccess) {
    throw Error(
        Code::unavailable,
        std::string("ncclGetUniqueId failed: ") + nccl.functions.get_error_string(result) +
            ": NCCL needs a network interface that other ranks reach; NCCL_SOCKET_IFNAME names it, and "
            "NCCL_DEBUG=INFO makes NCCL say what it finds");
  }
  NcclId id{};
  std::memcpy(id.data(), &unique, id.size());
  return id;
}

/// With the mutex. `gpu` is one that open_gpu gave.
std::shared_ptr<NcclMemory> memory_of(const std::shared_ptr<Gpu>& gpu) {
  auto& known = opened().memories[gpu->index()];
  std::shared_ptr<NcclMemory> memory = known.lock();
  if (!memory)
    known = memory =
        std::make_shared<NcclMemory>(opened_nccl(), std::dynamic_pointer_cast<cuda::CudaGpu>(gpu));
  return memory;
}

std::shared_ptr<std::byte> allocate(const std::shared_ptr<Gpu>& gpu, std::size_t bytes) {
  std::unique_lock lock(opened().mutex);
  const auto memory = memory_of(gpu);
  lock.unlock();
  return memory->allocate(bytes, true);
}

std::uint64_t symmetric_address(const std::shared_ptr<Gpu>& gpu, const void* data) {
  std::unique_lock lock(opened().mutex);
  const auto memory = opened().memories[gpu->index()].lock();
  lock.unlock();
  return memory ? memory->symmetric_address(data) : 0;
}

std::unique_ptr<NcclLane> make_lane(std::shared_ptr<Gpu> gpu, Stream& stream, const NcclOptions& options) {
  const std::lock_guard lock(opened().mutex);
  auto memory = memory_of(gpu);
  return make_nccl_lane({opened_nccl(), std::dynamic_pointer_cast<cuda::CudaGpu>(std::move(gpu)),
                         std::move(memory), options, std::make_shared<StopFlag>()},
                        dynamic_cast<cuda::CudaStream&>(stream));
}

}  // namespace
}  // namespace hora::nccl

extern "C" __attribute__((visibility("default"))) const hora::ModuleFace* hora_module() {
  static constexpr hora::NcclModule kFunctions{
      hora::nccl::gpus,     hora::nccl::open_gpu,          hora::nccl::library,  hora::nccl::make_id,
      hora::nccl::allocate, hora::nccl::symmetric_address, hora::nccl::make_lane};
  static constexpr hora::ModuleFace kFace{HORA_VERSION, &kFunctions};
  return &kFace;
}
