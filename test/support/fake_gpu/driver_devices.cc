// SPDX-License-Identifier: Apache-2.0
// The driver's functions for devices, contexts and errors, of the fake machine.
#include "test/support/fake_gpu/fake_machine.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>

using hora::fake_call;
using hora::fake_contexts;
using hora::FakeCall;
using hora::FakeLock;
using hora::FakeMachine;
using hora::on_fake_gpu;

namespace {

struct ErrorText {
  CUresult error;
  const char* name;
  const char* text;
};

constexpr std::array kErrors{
    ErrorText{CUDA_SUCCESS, "CUDA_SUCCESS", "no error"},
    ErrorText{CUDA_ERROR_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    ErrorText{CUDA_ERROR_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    ErrorText{CUDA_ERROR_NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    ErrorText{CUDA_ERROR_DEINITIALIZED, "CUDA_ERROR_DEINITIALIZED", "driver shutting down"},
    ErrorText{CUDA_ERROR_NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    ErrorText{CUDA_ERROR_INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    ErrorText{CUDA_ERROR_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    ErrorText{CUDA_ERROR_NO_BINARY_FOR_GPU, "CUDA_ERROR_NO_BINARY_FOR_GPU",
              "no kernel image is available for execution on the device"},
    ErrorText{CUDA_ERROR_ECC_UNCORRECTABLE, "CUDA_ERROR_ECC_UNCORRECTABLE",
              "uncorrectable ECC error encountered"},
    ErrorText{CUDA_ERROR_INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    ErrorText{CUDA_ERROR_NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    ErrorText{CUDA_ERROR_NOT_READY, "CUDA_ERROR_NOT_READY", "device not ready"},
    ErrorText{CUDA_ERROR_ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS",
              "an illegal memory access was encountered"},
    ErrorText{CUDA_ERROR_CONTEXT_IS_DESTROYED, "CUDA_ERROR_CONTEXT_IS_DESTROYED", "context is destroyed"},
    ErrorText{CUDA_ERROR_LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    ErrorText{CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
              "operation not permitted when stream is capturing"},
    ErrorText{CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT",
              "operation would make the legacy stream depend on a capturing blocking stream"},
    ErrorText{CUDA_ERROR_STREAM_CAPTURE_ISOLATION, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION",
              "dependency created on uncaptured work in another stream"},
    ErrorText{CUDA_ERROR_CAPTURED_EVENT, "CUDA_ERROR_CAPTURED_EVENT",
              "operation not permitted on an event last recorded in a capturing stream"},
    ErrorText{CUDA_ERROR_UNKNOWN, "CUDA_ERROR_UNKNOWN", "unknown error"},
};

CUresult error_text(CUresult error, const char** to, const char* ErrorText::* member) {
  const auto found =
      std::find_if(kErrors.begin(), kErrors.end(), [=](const auto& each) { return each.error == error; });
  *to = found == kErrors.end() ? nullptr : *found.*member;
  return found == kErrors.end() ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

int attribute(const hora::FakeGpu& gpu, CUdevice device, CUdevice_attribute which) {
  switch (which) {
    case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID: return gpu.pci_bus < 0 ? device : gpu.pci_bus;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: return gpu.multiprocessors;
    case CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED: return gpu.memory_pools ? 1 : 0;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: return gpu.compute_capability / 10;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: return gpu.compute_capability % 10;
    default: return 0;
  }
}

/// With the number of a GPU that there is.
CUresult with_gpu(FakeMachine& machine, CUdevice device,
                  const std::function<CUresult(FakeMachine::GpuState&)>& body) {
  if (device < 0 || device >= machine.gpus()) return CUDA_ERROR_INVALID_DEVICE;
  return body(machine.gpu(device));
}

}  // namespace

CUresult cuGetErrorName(CUresult error, const char** text) {
  return error_text(error, text, &ErrorText::name);
}

CUresult cuGetErrorString(CUresult error, const char** text) {
  return error_text(error, text, &ErrorText::text);
}

CUresult cuInit(unsigned /*flags*/) {
  return fake_call("cuInit", FakeCall::always, [](FakeMachine& machine, FakeLock&) {
    if (machine.gpus() == 0) return CUDA_ERROR_NO_DEVICE;
    machine.initialised = true;
    return CUDA_SUCCESS;
  });
}

CUresult cuDriverGetVersion(int* version) {
  return fake_call("cuDriverGetVersion", FakeCall::always, [&](FakeMachine& machine, FakeLock&) {
    const char* wanted = std::getenv("FAKE_CUDA_VERSION");
    *version = wanted == nullptr ? machine.version : std::atoi(wanted);
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceGetCount(int* count) {
  return fake_call("cuDeviceGetCount", FakeCall::plain, [&](FakeMachine& machine, FakeLock&) {
    *count = machine.gpus();
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceGet(CUdevice* device, int index) {
  return fake_call("cuDeviceGet", FakeCall::plain, [&](FakeMachine& machine, FakeLock&) {
    return with_gpu(machine, index, [&](auto&) {
      *device = index;
      return CUDA_SUCCESS;
    });
  });
}

CUresult cuDeviceGetName(char* name, int length, CUdevice device) {
  return fake_call("cuDeviceGetName", FakeCall::plain, [&](FakeMachine& machine, FakeLock&) {
    return with_gpu(machine, device, [&](auto& gpu) {
      std::strncpy(name, gpu.kind.name.c_str(), static_cast<std::size_t>(length));
      name[length - 1] = '\0';
      return CUDA_SUCCESS;
    });
  });
}

CUresult cuDeviceGetUuid(CUuuid* uuid, CUdevice device) {
  return fake_call("cuDeviceGetUuid", FakeCall::plain, [&](FakeMachine& machine, FakeLock&) {
    return with_gpu(machine, device, [&](auto&) {
      std::memset(uuid->bytes, 0x40 + device, sizeof(uuid->bytes));
      return CUDA_SUCCESS;
    });
  });
}

CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute which, CUdevice device) {
  return fake_call("cuDeviceGetAttribute", FakeCall::plain, [&](FakeMachine& machine, FakeLock&) {
    return with_gpu(machine, device, [&](auto& gpu) {
      *value = attribute(gpu.kind, device, which);
      return CUDA_SUCCESS;
    });
  });
}

CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  return fake_call("cuDevicePrimaryCtxRetain", FakeCall::plain, [&](FakeMachine& machine, FakeLock&) {
    return with_gpu(machine, device, [&](auto& gpu) {
      if (gpu.error != CUDA_SUCCESS) return gpu.error;
      ++gpu.usage.retains;
      *context = &gpu.context;
      return CUDA_SUCCESS;
    });
  });
}

CUresult cuDevicePrimaryCtxRelease(CUdevice device) {
  return fake_call("cuDevicePrimaryCtxRelease", FakeCall::returns, [&](FakeMachine& machine, FakeLock&) {
    return with_gpu(machine, device, [&](auto& gpu) {
      if (gpu.usage.retains == 0) return CUDA_ERROR_INVALID_CONTEXT;
      --gpu.usage.retains;
      return CUDA_SUCCESS;
    });
  });
}

CUresult cuCtxPushCurrent(CUcontext context) {
  return fake_call("cuCtxPushCurrent", FakeCall::plain, [&](FakeMachine& machine, FakeLock&) {
    if (!machine.owns(context)) return CUDA_ERROR_INVALID_CONTEXT;
    auto& contexts = fake_contexts();
    if (contexts.count == contexts.kMost) return CUDA_ERROR_OUT_OF_MEMORY;
    contexts.pushed[contexts.count++] = context;
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxPopCurrent(CUcontext* context) {
  return fake_call("cuCtxPopCurrent", FakeCall::returns, [&](FakeMachine&, FakeLock&) {
    auto& contexts = fake_contexts();
    if (contexts.count == 0) return CUDA_ERROR_INVALID_CONTEXT;
    *context = contexts.pushed[--contexts.count];
    return CUDA_SUCCESS;
  });
}

// It spoils a capture of the context whatever the thread has said, and does not wait then.
CUresult cuCtxSynchronize() {
  return fake_call("cuCtxSynchronize", FakeCall::unsafe, [&](FakeMachine& machine, FakeLock& lock) {
    return on_fake_gpu(machine, [&](int gpu) {
      if (machine.captures(gpu)) {
        machine.spoilt = true;
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
      }
      machine.finish(gpu, lock);
      return machine.gpu(gpu).error;
    });
  });
}

CUresult cuCtxGetCurrent(CUcontext* context) {
  return fake_call("cuCtxGetCurrent", FakeCall::plain, [&](FakeMachine&, FakeLock&) {
    *context = fake_contexts().current();
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxGetDevice(CUdevice* device) {
  return fake_call("cuCtxGetDevice", FakeCall::plain, [&](FakeMachine& machine, FakeLock&) {
    return on_fake_gpu(machine, [&](int gpu) {
      *device = gpu;
      return CUDA_SUCCESS;
    });
  });
}

CUresult cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  return fake_call("cuCtxGetStreamPriorityRange", FakeCall::plain, [&](FakeMachine& machine, FakeLock&) {
    return on_fake_gpu(machine, [&](int) {
      *least = 0;
      *greatest = -5;
      return CUDA_SUCCESS;
    });
  });
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  return fake_call("cuThreadExchangeStreamCaptureMode", FakeCall::plain, [&](FakeMachine&, FakeLock&) {
    std::swap(*mode, hora::fake_capture_mode());
    return CUDA_SUCCESS;
  });
}
