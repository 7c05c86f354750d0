// SPDX-License-Identifier: Apache-2.0
// The driver's functions for graphs, and for words that streams wait for and write, of the fake machine.
#include "test/support/fake_gpu/driver_graphs.h"

#include "test/support/fake_gpu/fake_machine.h"

#include <atomic>
#include <utility>

using hora::fake_call;
using hora::FakeCall;
using hora::FakeLock;
using hora::FakeMachine;
using hora::on_fake_stream;

namespace {

std::atomic_ref<std::uint32_t> word_at(CUdeviceptr address) {
  return std::atomic_ref(*reinterpret_cast<std::uint32_t*>(address));
}

/// Nothing: it is not one that Hora uses.
FakeTask task_of(const CUstreamBatchMemOpParams& operation) {
  const CUdeviceptr address = operation.waitValue.address;
  const std::uint32_t value = operation.waitValue.value;
  if (operation.operation == CU_STREAM_MEM_OP_WRITE_VALUE_32)
    return {[=] { word_at(address).store(value, std::memory_order_release); }, {}};
  const bool waits = operation.operation == CU_STREAM_MEM_OP_WAIT_VALUE_32 &&
                     operation.waitValue.flags == CU_STREAM_WAIT_VALUE_EQ;
  if (!waits) return {};
  return {[] {}, [=] { return word_at(address).load(std::memory_order_acquire) == value; }};
}

}  // namespace

CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus* status) {
  return fake_call("cuStreamIsCapturing", FakeCall::plain, [&](FakeMachine& machine, FakeLock&) {
    return on_fake_stream(machine, stream, [&](CUstream_st& on) {
      *status = on.graph ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
      return CUDA_SUCCESS;
    });
  });
}

CUresult cuStreamGetCaptureInfo_v2(CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* number,
                                   CUgraph* graph, const CUgraphNode** /*dependencies*/,
                                   std::size_t* /*count*/) {
  return fake_call("cuStreamGetCaptureInfo", FakeCall::plain, [&](FakeMachine& machine, FakeLock&) {
    return on_fake_stream(machine, stream, [&](CUstream_st& on) {
      *status = on.graph ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
      if (!on.graph) return CUDA_SUCCESS;
      *number = on.graph->number;
      *graph = on.graph.get();
      return CUDA_SUCCESS;
    });
  });
}

CUresult cuStreamBeginCapture(CUstream stream, CUstreamCaptureMode /*mode*/) {
  return fake_call("cuStreamBeginCapture", FakeCall::plain, [&](FakeMachine& machine, FakeLock&) {
    return on_fake_stream(machine, stream, [&](CUstream_st& on) {
      if (on.graph) return CUDA_ERROR_ILLEGAL_STATE;
      on.frameworks = true;
      machine.begin_capture(&on);
      return CUDA_SUCCESS;
    });
  });
}

CUresult cuStreamEndCapture(CUstream stream, CUgraph* graph) {
  return fake_call("cuStreamEndCapture", FakeCall::plain, [&](FakeMachine& machine, FakeLock&) {
    return on_fake_stream(machine, stream, [&](CUstream_st& on) {
      if (!on.graph) return CUDA_ERROR_ILLEGAL_STATE;
      auto ended = machine.end_capture(&on);
      *graph = ended.get();
      machine.graphs.emplace(*graph, std::move(ended));
      return CUDA_SUCCESS;
    });
  });
}

CUresult cuStreamBatchMemOp(CUstream stream, unsigned count, CUstreamBatchMemOpParams* operations,
                            unsigned /*flags*/) {
  return fake_call("cuStreamBatchMemOp", FakeCall::plain, [&](FakeMachine& machine, FakeLock&) {
    return on_fake_stream(machine, stream, [&](CUstream_st& on) {
      for (unsigned i = 0; i < count; ++i) {
        const auto* word = reinterpret_cast<const void*>(operations[i].waitValue.address);
        const hora::FakeBlock* block = machine.block_of(word);
        if (block == nullptr || !block->pinned) return CUDA_ERROR_INVALID_VALUE;
        FakeTask task = task_of(operations[i]);
        if (!task.run) return CUDA_ERROR_INVALID_VALUE;
        machine.put(&on, std::move(task));
      }
      return CUDA_SUCCESS;
    });
  });
}

CUresult cuUserObjectCreate(CUuserObject* object, void* data, CUhostFn destroy, unsigned references,
                            unsigned /*flags*/) {
  return fake_call("cuUserObjectCreate", FakeCall::plain, [&](FakeMachine& machine, FakeLock&) {
    auto made = std::make_unique<CUuserObject_st>();
    made->owner = {data, destroy};
    made->references = references;
    *object = made.get();
    machine.objects.emplace(*object, std::move(made));
    return CUDA_SUCCESS;
  });
}

CUresult cuUserObjectRelease(CUuserObject object, unsigned count) {
  return fake_call("cuUserObjectRelease", FakeCall::returns, [&](FakeMachine& machine, FakeLock&) {
    const auto found = machine.objects.find(object);
    if (found == machine.objects.end() || found->second->references < count) return CUDA_ERROR_INVALID_VALUE;
    found->second->references -= count;
    if (found->second->references == 0) machine.objects.erase(found);
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphRetainUserObject(CUgraph graph, CUuserObject object, unsigned count, unsigned flags) {
  return fake_call("cuGraphRetainUserObject", FakeCall::plain, [&](FakeMachine& machine, FakeLock&) {
    const auto found = machine.objects.find(object);
    const bool moves = (flags & CU_GRAPH_USER_OBJECT_MOVE) != 0;
    if (found == machine.objects.end() || (moves && found->second->references < count))
      return CUDA_ERROR_INVALID_VALUE;
    graph->objects.insert(graph->objects.end(), count, found->second->owner);
    if (!moves) return CUDA_SUCCESS;
    found->second->references -= count;
    if (found->second->references == 0) machine.objects.erase(found);
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphInstantiate(CUgraphExec* executable, CUgraph graph, unsigned long long /*flags*/) {
  return fake_call("cuGraphInstantiate", FakeCall::plain, [&](FakeMachine& machine, FakeLock&) {
    if (!machine.graphs.contains(graph)) return CUDA_ERROR_INVALID_VALUE;
    auto made = std::make_shared<CUgraphExec_st>(CUgraphExec_st{graph->tasks, graph->objects});
    *executable = made.get();
    machine.executables.emplace(*executable, std::move(made));
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphLaunch(CUgraphExec executable, CUstream stream) {
  return fake_call("cuGraphLaunch", FakeCall::plain, [&](FakeMachine& machine, FakeLock&) {
    return on_fake_stream(machine, stream, [&](CUstream_st& on) {
      const auto found = machine.executables.find(executable);
      if (found == machine.executables.end()) return CUDA_ERROR_INVALID_VALUE;
      for (const auto& task : found->second->tasks) machine.put(&on, task);
      machine.put(&on, {[kept = found->second] {}, {}});  // until it has run
      return CUDA_SUCCESS;
    });
  });
}

CUresult cuGraphExecDestroy(CUgraphExec executable) {
  return fake_call("cuGraphExecDestroy", FakeCall::returns, [&](FakeMachine& machine, FakeLock&) {
    return machine.executables.erase(executable) == 1 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  });
}

CUresult cuGraphDestroy(CUgraph graph) {
  return fake_call("cuGraphDestroy", FakeCall::returns, [&](FakeMachine& machine, FakeLock&) {
    return machine.graphs.erase(graph) == 1 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  });
}
