// SPDX-License-Identifier: Apache-2.0
// The driver's functions for memory, of the fake machine.
#include "test/support/fake_gpu/fake_machine.h"

#include <cstring>

using hora::fake_call;
using hora::FakeCall;
using hora::FakeLock;
using hora::FakeMachine;
using hora::on_fake_gpu;
using hora::on_fake_stream;

/// A pool of the driver's.
struct CUmemPoolHandle_st {
  int gpu = 0;
};

namespace {

constexpr int kPoison = 0xA5;

std::byte* pointer(CUdeviceptr address) { return reinterpret_cast<std::byte*>(address); }

CUresult allocate(FakeMachine& machine, std::size_t bytes, bool pinned, std::byte** data) {
  return on_fake_gpu(machine, [&](int gpu) {
    const CUresult result = machine.allocate(gpu, bytes, pinned, data);
    if (result == CUDA_SUCCESS) std::memset(*data, kPoison, bytes);
    return result;
  });
}

/// Waits for the GPU first, as the driver does, unless the memory was allocated on a stream.
CUresult free_now(FakeMachine& machine, FakeLock& lock, const void* data, bool pinned) {
  const hora::FakeBlock* block = machine.block_of(data);
  if (block == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!block->ordered) machine.finish(block->gpu, lock);
  return machine.free(data, pinned) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

void set_attribute(const hora::FakeBlock* block, CUpointer_attribute which, void* to) {
  const bool pinned = block != nullptr && block->pinned;
  switch (which) {
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE: {
      const unsigned type = pinned ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
      *static_cast<unsigned*>(to) = block == nullptr ? 0 : type;
      break;
    }
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      *static_cast<int*>(to) = block == nullptr ? -2 : block->gpu;
      break;
    default: *static_cast<unsigned*>(to) = 0; break;
  }
}

}  // namespace

CUresult cuMemAlloc(CUdeviceptr* data, std::size_t bytes) {
  return fake_call("cuMemAlloc", FakeCall::unsafe, [&](FakeMachine& machine, FakeLock&) {
    std::byte* room = nullptr;
    const CUresult result = allocate(machine, bytes, false, &room);
    *data = reinterpret_cast<CUdeviceptr>(room);
    return result;
  });
}

CUresult cuMemFree(CUdeviceptr data) {
  return fake_call("cuMemFree", FakeCall::frees, [&](FakeMachine& machine, FakeLock& lock) {
    return on_fake_gpu(machine, [&](int) { return free_now(machine, lock, pointer(data), false); });
  });
}

CUresult cuMemPoolCreate(CUmemoryPool* pool, const CUmemPoolProps* wanted) {
  return fake_call("cuMemPoolCreate", FakeCall::plain, [&](FakeMachine& machine, FakeLock&) {
    if (!machine.gpu(wanted->location.id).kind.memory_pools) return CUDA_ERROR_NOT_SUPPORTED;
    *pool = new CUmemPoolHandle_st{wanted->location.id};
    return CUDA_SUCCESS;
  });
}

CUresult cuMemPoolDestroy(CUmemoryPool pool) {
  return fake_call("cuMemPoolDestroy", FakeCall::returns, [&](FakeMachine&, FakeLock&) {
    delete pool;
    return CUDA_SUCCESS;
  });
}

CUresult cuMemPoolSetAttribute(CUmemoryPool /*pool*/, CUmemPool_attribute which, void* value) {
  return fake_call("cuMemPoolSetAttribute", FakeCall::plain, [&](FakeMachine&, FakeLock&) {
    const bool known = which == CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES;
    return known && *static_cast<const int*>(value) == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  });
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr* data, std::size_t bytes, CUmemoryPool pool, CUstream stream) {
  return fake_call("cuMemAllocFromPoolAsync", FakeCall::plain, [&](FakeMachine& machine, FakeLock&) {
    return on_fake_stream(machine, stream, [&](CUstream_st& on) {
      if (pool->gpu != on.gpu) return CUDA_ERROR_INVALID_VALUE;
      std::byte* room = nullptr;
      const CUresult result = machine.allocate(on.gpu, bytes, false, &room);
      *data = reinterpret_cast<CUdeviceptr>(room);
      // In its turn, so that whoever uses it before that loses what they wrote.
      if (result != CUDA_SUCCESS) return result;
      machine.set_ordered(room);
      machine.put(&on, {[=] { std::memset(room, kPoison, bytes); }, {}});
      return result;
    });
  });
}

CUresult cuMemFreeAsync(CUdeviceptr data, CUstream stream) {
  return fake_call("cuMemFreeAsync", FakeCall::returns, [&](FakeMachine& machine, FakeLock&) {
    return on_fake_stream(machine, stream, [&](CUstream_st& on) {
      if (machine.block_of(pointer(data)) == nullptr) return CUDA_ERROR_INVALID_VALUE;
      machine.put(&on, {[&machine, data] {
                          const std::lock_guard lock(machine.mutex);
                          machine.free(pointer(data), false);
                        },
                        {}});
      return CUDA_SUCCESS;
    });
  });
}

CUresult cuMemHostAlloc(void** data, std::size_t bytes, unsigned /*flags*/) {
  return fake_call("cuMemHostAlloc", FakeCall::unsafe, [&](FakeMachine& machine, FakeLock&) {
    std::byte* room = nullptr;
    const CUresult result = allocate(machine, bytes, true, &room);
    *data = room;
    return result;
  });
}

CUresult cuMemFreeHost(void* data) {
  return fake_call("cuMemFreeHost", FakeCall::frees, [&](FakeMachine& machine, FakeLock& lock) {
    return on_fake_gpu(machine, [&](int) { return free_now(machine, lock, data, true); });
  });
}

CUresult cuMemHostRegister(void* data, std::size_t bytes, unsigned /*flags*/) {
  return fake_call("cuMemHostRegister", FakeCall::unsafe, [&](FakeMachine& machine, FakeLock&) {
    return on_fake_gpu(machine, [&](int gpu) { return machine.pin(gpu, data, bytes); });
  });
}

CUresult cuMemHostUnregister(void* data) {
  return fake_call("cuMemHostUnregister", FakeCall::returns, [&](FakeMachine& machine, FakeLock& lock) {
    return on_fake_gpu(machine, [&](int) {
      const hora::FakeBlock* block = machine.block_of(data);
      if (block == nullptr || block->data) return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
      return free_now(machine, lock, data, true);
    });
  });
}

CUresult cuMemGetInfo(std::size_t* free, std::size_t* total) {
  return fake_call("cuMemGetInfo", FakeCall::plain, [&](FakeMachine& machine, FakeLock&) {
    return on_fake_gpu(machine, [&](int gpu) {
      *total = machine.gpu(gpu).kind.memory;
      *free = *total - machine.gpu(gpu).usage.bytes;
      return CUDA_SUCCESS;
    });
  });
}

CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, std::size_t bytes, CUstream stream) {
  return fake_call("cuMemcpyAsync", FakeCall::plain, [&](FakeMachine& machine, FakeLock&) {
    return on_fake_stream(machine, stream, [&](CUstream_st& on) {
      machine.put(&on, {[=] { std::memmove(pointer(to), pointer(from), bytes); }, {}});
      return CUDA_SUCCESS;
    });
  });
}

CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, std::size_t bytes, CUstream stream) {
  return fake_call("cuMemsetD8Async", FakeCall::plain, [&](FakeMachine& machine, FakeLock&) {
    return on_fake_stream(machine, stream, [&](CUstream_st& on) {
      machine.put(&on, {[=] { std::memset(pointer(to), value, bytes); }, {}});
      return CUDA_SUCCESS;
    });
  });
}

// Memory that is not of CUDA is no error: its attributes are nothing.
CUresult cuPointerGetAttributes(unsigned count, CUpointer_attribute* which, void** to, CUdeviceptr data) {
  return fake_call("cuPointerGetAttributes", FakeCall::plain, [&](FakeMachine& machine, FakeLock&) {
    const hora::FakeBlock* block = machine.owner_of(pointer(data));
    for (unsigned i = 0; i < count; ++i) set_attribute(block, which[i], to[i]);
    return CUDA_SUCCESS;
  });
}
