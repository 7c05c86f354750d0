// SPDX-License-Identifier: Apache-2.0
// The driver's functions for streams, events and kernels, of the fake machine.
#include "test/support/fake_gpu/fake_machine.h"

#include <algorithm>
#include <cstring>

using hora::fake_call;
using hora::FakeCall;
using hora::FakeKernel;
using hora::FakeLock;
using hora::FakeMachine;
using hora::on_fake_gpu;
using hora::on_fake_stream;

namespace {

CUresult with_event(FakeMachine& machine, CUevent event,
                    const std::function<CUresult(const std::shared_ptr<CUevent_st>&)>& body) {
  const auto found = machine.events.find(event);
  if (found == machine.events.end()) return CUDA_ERROR_INVALID_HANDLE;
  const CUresult error = machine.gpu(found->second->gpu).error;
  return error != CUDA_SUCCESS ? error : body(found->second);
}

/// Captured work cannot depend on work that is not captured.
CUresult spoil_capture(FakeMachine& machine, CUresult result) {
  machine.spoilt = true;
  return result;
}

/// The stream waits for an event of the graph, and so becomes a part of that. Hora's own streams never do.
CUresult follow(FakeMachine& machine, CUstream_st& stream, const std::shared_ptr<CUgraph_st>& graph) {
  if (!stream.frameworks) return spoil_capture(machine, CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
  if (stream.graph != nullptr && stream.graph != graph)
    return spoil_capture(machine, CUDA_ERROR_STREAM_CAPTURE_MERGE);
  stream.graph = graph;
  return CUDA_SUCCESS;
}

void run_kernel(FakeMachine& machine, int gpu, const FakeKernel& kernel,
                const std::vector<std::byte>& parameters, unsigned grid) {
  const auto reached = [&](const void* data, std::size_t bytes) {
    const std::lock_guard lock(machine.mutex);
    return machine.reaches(gpu, data, bytes);
  };
  if (kernel.run(parameters.data(), grid, reached, nullptr)) return;
  const std::lock_guard lock(machine.mutex);
  machine.fail(gpu, CUDA_ERROR_ILLEGAL_ADDRESS);
}

}  // namespace

CUresult cuStreamCreateWithPriority(CUstream* stream, unsigned /*flags*/, int /*priority*/) {
  return fake_call("cuStreamCreateWithPriority", FakeCall::plain, [&](FakeMachine& machine, FakeLock&) {
    return on_fake_gpu(machine, [&](int gpu) {
      *stream = machine.add_stream(gpu, false);
      return CUDA_SUCCESS;
    });
  });
}

CUresult cuStreamDestroy(CUstream stream) {
  return fake_call("cuStreamDestroy", FakeCall::returns, [&](FakeMachine& machine, FakeLock&) {
    if (!machine.streams.contains(stream)) return CUDA_ERROR_INVALID_HANDLE;
    machine.close(stream);
    return CUDA_SUCCESS;
  });
}

CUresult cuStreamSynchronize(CUstream stream) {
  return fake_call("cuStreamSynchronize", FakeCall::unsafe, [&](FakeMachine& machine, FakeLock& lock) {
    return on_fake_stream(machine, stream, [&](CUstream_st& on) {
      machine.finish(&on, lock);
      return machine.gpu(on.gpu).error;
    });
  });
}

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned /*flags*/) {
  return fake_call("cuStreamWaitEvent", FakeCall::plain, [&](FakeMachine& machine, FakeLock&) {
    return on_fake_stream(machine, stream, [&](CUstream_st& on) {
      return with_event(machine, event, [&](const std::shared_ptr<CUevent_st>& point) {
        if (const auto graph = point->captured.lock()) return follow(machine, on, graph);
        if (on.graph) return spoil_capture(machine, CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
        const auto ready = [&machine, point, until = point->recorded] {
          return point->reached >= until || machine.gpu(point->gpu).error != CUDA_SUCCESS;
        };
        machine.put(&on, {[] {}, ready});
        return CUDA_SUCCESS;
      });
    });
  });
}

CUresult cuStreamGetDevice(CUstream stream, CUdevice* device) {
  return fake_call("cuStreamGetDevice", FakeCall::plain, [&](FakeMachine& machine, FakeLock&) {
    if (!machine.streams.contains(stream)) return CUDA_ERROR_INVALID_HANDLE;
    *device = stream->gpu;
    return CUDA_SUCCESS;
  });
}

CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void* data) {
  return fake_call("cuLaunchHostFunc", FakeCall::plain, [&](FakeMachine& machine, FakeLock&) {
    return on_fake_stream(machine, stream, [&](CUstream_st& on) {
      machine.put(&on, {[=] { function(data); }, {}});
      return CUDA_SUCCESS;
    });
  });
}

CUresult cuEventCreate(CUevent* event, unsigned /*flags*/) {
  return fake_call("cuEventCreate", FakeCall::plain, [&](FakeMachine& machine, FakeLock&) {
    return on_fake_gpu(machine, [&](int gpu) {
      auto made = std::make_shared<CUevent_st>();
      made->gpu = gpu;
      *event = made.get();
      machine.events.emplace(*event, std::move(made));
      ++machine.gpu(gpu).usage.events;
      return CUDA_SUCCESS;
    });
  });
}

CUresult cuEventDestroy(CUevent event) {
  return fake_call("cuEventDestroy", FakeCall::returns, [&](FakeMachine& machine, FakeLock&) {
    const auto found = machine.events.find(event);
    if (found == machine.events.end()) return CUDA_ERROR_INVALID_HANDLE;
    --machine.gpu(found->second->gpu).usage.events;
    machine.events.erase(found);
    return CUDA_SUCCESS;
  });
}

CUresult cuEventRecord(CUevent event, CUstream stream) {
  return fake_call("cuEventRecord", FakeCall::plain, [&](FakeMachine& machine, FakeLock&) {
    return on_fake_stream(machine, stream, [&](CUstream_st& on) {
      return with_event(machine, event, [&](const std::shared_ptr<CUevent_st>& point) {
        if (point->gpu != on.gpu) return CUDA_ERROR_INVALID_HANDLE;
        point->captured = on.graph;
        if (on.graph) return CUDA_SUCCESS;
        machine.put(&on, {[&machine, point, number = ++point->recorded] {
                            const std::lock_guard lock(machine.mutex);
                            point->reached = std::max(point->reached, number);
                          },
                          {}});
        return CUDA_SUCCESS;
      });
    });
  });
}

CUresult cuEventQuery(CUevent event) {
  return fake_call("cuEventQuery", FakeCall::unsafe, [&](FakeMachine& machine, FakeLock&) {
    return with_event(machine, event, [&](const std::shared_ptr<CUevent_st>& point) {
      if (!point->captured.expired()) return spoil_capture(machine, CUDA_ERROR_CAPTURED_EVENT);
      return point->reached == point->recorded ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
    });
  });
}

CUresult cuEventSynchronize(CUevent event) {
  return fake_call("cuEventSynchronize", FakeCall::unsafe, [&](FakeMachine& machine, FakeLock& lock) {
    return with_event(machine, event, [&](const std::shared_ptr<CUevent_st>& point) {
      const auto& gpu = machine.gpu(point->gpu);
      machine.changed.wait(lock,
                           [&] { return point->reached == point->recorded || gpu.error != CUDA_SUCCESS; });
      return gpu.error;
    });
  });
}

CUresult cuModuleLoadData(CUmodule* module, const void* image) {
  return fake_call("cuModuleLoadData", FakeCall::unsafe, [&](FakeMachine& machine, FakeLock&) {
    return on_fake_gpu(machine, [&](int gpu) {
      constexpr std::uint32_t kFatbin = 0xBA55ED50;
      std::uint32_t magic = 0;
      std::memcpy(&magic, image, sizeof(magic));
      if (magic != kFatbin) return CUDA_ERROR_INVALID_IMAGE;
      auto made = std::make_unique<CUmod_st>();
      made->gpu = gpu;
      *module = made.get();
      machine.modules.emplace(*module, std::move(made));
      ++machine.gpu(gpu).usage.modules;
      return CUDA_SUCCESS;
    });
  });
}

CUresult cuModuleUnload(CUmodule module) {
  return fake_call("cuModuleUnload", FakeCall::frees, [&](FakeMachine& machine, FakeLock& lock) {
    const auto found = machine.modules.find(module);
    if (found == machine.modules.end()) return CUDA_ERROR_INVALID_HANDLE;
    machine.finish(found->second->gpu, lock);
    --machine.gpu(found->second->gpu).usage.modules;
    machine.modules.erase(found);
    return CUDA_SUCCESS;
  });
}

CUresult cuModuleGetFunction(CUfunction* function, CUmodule module, const char* name) {
  return fake_call("cuModuleGetFunction", FakeCall::plain, [&](FakeMachine& machine, FakeLock&) {
    const auto found = machine.modules.find(module);
    if (found == machine.modules.end()) return CUDA_ERROR_INVALID_HANDLE;
    const int gpu = found->second->gpu;
    const FakeKernel* kernel = hora::fake_kernel(machine.gpu(gpu).kind.compute_capability, name);
    if (kernel == nullptr) return CUDA_ERROR_NOT_FOUND;
    auto& made = found->second->functions[name];
    if (!made) made = std::make_unique<CUfunc_st>(CUfunc_st{gpu, kernel});
    *function = made.get();
    return CUDA_SUCCESS;
  });
}

CUresult cuLaunchKernel(CUfunction function, unsigned grid, unsigned, unsigned, unsigned, unsigned, unsigned,
                        unsigned, CUstream stream, void** parameters, void** /*extra*/) {
  return fake_call("cuLaunchKernel", FakeCall::plain, [&](FakeMachine& machine, FakeLock&) {
    return on_fake_stream(machine, stream, [&](CUstream_st& on) {
      if (grid == 0) return CUDA_ERROR_INVALID_VALUE;
      if (function->gpu != on.gpu) return CUDA_ERROR_INVALID_HANDLE;
      const FakeKernel& kernel = *function->kernel;
      const auto* first = static_cast<const std::byte*>(parameters[0]);
      const std::vector<std::byte> own(first, first + kernel.parameter_bytes);
      machine.put(
          &on, {[&machine, &kernel, own, grid, gpu = on.gpu] { run_kernel(machine, gpu, kernel, own, grid); },
                {}});
      return CUDA_SUCCESS;
    });
  });
}
