// SPDX-License-Identifier: Apache-2.0
#include "test/support/fake_gpu/fake_machine.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <thread>

namespace hora {
namespace {

struct Current {
  std::mutex mutex;
  std::shared_ptr<FakeMachine> machine;
};

// Never destroyed: the driver is called until the very end of a process.
Current& current() {
  static auto* current = new Current;
  return *current;
}

}  // namespace

std::shared_ptr<FakeMachine> fake_machine() {
  const std::lock_guard lock(current().mutex);
  return current().machine;
}

void set_fake_machine(std::shared_ptr<FakeMachine> machine) {
  const std::lock_guard lock(current().mutex);
  current().machine = std::move(machine);
}

FakeContexts& fake_contexts() {
  thread_local FakeContexts contexts{};
  return contexts;
}

CUstreamCaptureMode& fake_capture_mode() {
  thread_local CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  return mode;
}

FakeMachine::FakeMachine(std::vector<FakeGpu> gpus) {
  for (auto& kind : gpus) {
    gpus_.push_back(std::make_unique<GpuState>());
    gpus_.back()->kind = std::move(kind);
    gpus_.back()->context.gpu = static_cast<int>(gpus_.size()) - 1;
  }
}

FakeMachine::~FakeMachine() {
  std::unique_lock lock(mutex);
  ending_ = true;
  changed.notify_all();
  changed.wait(lock, [&] { return threads_ == 0; });
}

bool FakeMachine::owns(CUcontext context) const {
  return std::any_of(gpus_.begin(), gpus_.end(), [=](const auto& each) { return &each->context == context; });
}

CUstream_st* FakeMachine::add_stream(int gpu, bool frameworks) {
  all_streams_.push_back(std::make_unique<CUstream_st>());
  CUstream_st& stream = *all_streams_.back();
  stream.gpu = gpu;
  stream.frameworks = frameworks;
  ++threads_;
  std::thread([this, &stream] {
    std::unique_lock lock(mutex);
    work(stream, lock);
    --threads_;
    changed.notify_all();
  }).detach();
  streams.insert(&stream);
  if (!frameworks) ++this->gpu(gpu).usage.streams;
  return &stream;
}

void FakeMachine::close(CUstream_st* stream) {
  stream->closing = true;
  streams.erase(stream);
  if (!stream->frameworks) --gpu(stream->gpu).usage.streams;
  changed.notify_all();
}

void FakeMachine::put(CUstream_st* stream, FakeTask task) {
  if (stream->graph) return stream->graph->tasks.push_back(std::move(task));
  stream->tasks.push_back(std::move(task));
  changed.notify_all();
}

void FakeMachine::begin_capture(CUstream_st* stream) {
  stream->graph = std::make_shared<CUgraph_st>();
  stream->graph->number = ++captures_;
}

std::shared_ptr<CUgraph_st> FakeMachine::end_capture(CUstream_st* stream) {
  const auto graph = stream->graph;
  for (auto* each : streams) {
    if (each->graph == graph) each->graph = nullptr;
  }
  return graph;
}

void FakeMachine::work(CUstream_st& stream, FakeLock& lock) {
  while (true) {
    const GpuState& own = gpu(stream.gpu);
    const auto begins = [&] {
      if (stream.tasks.empty()) return stream.closing;
      if (own.error != CUDA_SUCCESS) return true;
      return !own.held && (!stream.tasks.front().ready || stream.tasks.front().ready());
    };
    changed.wait(lock, [&] { return ending_ || begins(); });
    if (ending_ || stream.tasks.empty()) return;
    FakeTask task = std::move(stream.tasks.front());
    stream.tasks.pop_front();
    stream.busy = true;
    const bool runs = own.error == CUDA_SUCCESS;
    lock.unlock();
    if (runs) task.run();
    task = {};
    lock.lock();
    stream.busy = false;
    changed.notify_all();
  }
}

void FakeMachine::finish(int gpu, FakeLock& lock) {
  changed.wait(lock, [&] {
    return std::all_of(all_streams_.begin(), all_streams_.end(), [&](const auto& stream) {
      return stream->gpu != gpu || (stream->tasks.empty() && !stream->busy);
    });
  });
}

void FakeMachine::finish(CUstream_st* stream, FakeLock& lock) {
  changed.wait(lock, [&] { return stream->tasks.empty() && !stream->busy; });
}

CUresult FakeMachine::allocate(int gpu, std::size_t bytes, bool pinned, std::byte** data) {
  if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  GpuState& own = this->gpu(gpu);
  if (!pinned && own.usage.bytes + bytes > own.kind.memory) return CUDA_ERROR_OUT_OF_MEMORY;
  void* room = nullptr;
  if (::posix_memalign(&room, 256, bytes) != 0) return CUDA_ERROR_OUT_OF_MEMORY;
  *data = static_cast<std::byte*>(room);
  FakeBlock& block = blocks_[reinterpret_cast<std::uintptr_t>(room)];
  block = {std::unique_ptr<std::byte, FreeMemory>(*data), bytes, gpu, pinned, false};
  if (pinned) {
    ++own.usage.pinned_blocks;
  } else {
    ++own.usage.blocks;
    own.usage.bytes += bytes;
    own.usage.peak_bytes = std::max(own.usage.peak_bytes, own.usage.bytes);
  }
  return CUDA_SUCCESS;
}

CUresult FakeMachine::pin(int gpu, void* data, std::size_t bytes) {
  if (block_of(data) != nullptr) return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
  blocks_[reinterpret_cast<std::uintptr_t>(data)] = {nullptr, bytes, gpu, true, false};
  ++this->gpu(gpu).usage.pinned_blocks;
  return CUDA_SUCCESS;
}

bool FakeMachine::free(const void* data, bool pinned) {
  const auto found = blocks_.find(reinterpret_cast<std::uintptr_t>(data));
  if (found == blocks_.end() || found->second.pinned != pinned) return false;
  FakeUsage& usage = gpu(found->second.gpu).usage;
  if (pinned) {
    --usage.pinned_blocks;
  } else {
    --usage.blocks;
    usage.bytes -= found->second.bytes;
  }
  blocks_.erase(found);
  return true;
}

void FakeMachine::set_ordered(const void* data) {
  blocks_.at(reinterpret_cast<std::uintptr_t>(data)).ordered = true;
}

const FakeBlock* FakeMachine::block_of(const void* data) const {
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  auto found = blocks_.upper_bound(address);
  if (found == blocks_.begin()) return nullptr;
  --found;
  return address < found->first + found->second.bytes ? &found->second : nullptr;
}

const FakeBlock* FakeMachine::owner_of(const void* data) const {
  const FakeBlock* block = block_of(data);
  return block == nullptr && rest ? &*rest : block;
}

bool FakeMachine::reaches(int gpu, const void* data, std::size_t bytes) const {
  if (bytes == 0) return true;
  const FakeBlock* block = block_of(data);
  if (block == nullptr && rest) return rest->gpu == gpu;
  if (block == nullptr || (!block->pinned && block->gpu != gpu)) return false;
  return static_cast<const std::byte*>(data) + bytes <= block->data.get() + block->bytes;
}

void FakeMachine::fail(int gpu, CUresult error) {
  this->gpu(gpu).error = error;
  changed.notify_all();
}

bool FakeMachine::captures() const {
  return std::any_of(streams.begin(), streams.end(),
                     [](const auto* stream) { return stream->graph != nullptr; });
}

bool FakeMachine::captures(int gpu) const {
  return std::any_of(streams.begin(), streams.end(),
                     [=](const auto* stream) { return stream->graph != nullptr && stream->gpu == gpu; });
}

CUresult fake_call(const char* function, FakeCall kind,
                   const std::function<CUresult(FakeMachine&, FakeLock&)>& body) {
  const auto machine = fake_machine();
  if (!machine) return CUDA_ERROR_DEINITIALIZED;
  FakeLock lock(machine->mutex);
  ++machine->calls[function];
  if (!machine->initialised && kind != FakeCall::always) return CUDA_ERROR_NOT_INITIALIZED;
  const auto failure = machine->failures.find(function);
  if (failure != machine->failures.end() && --failure->second.first == 0) {
    const CUresult error = failure->second.second;
    machine->failures.erase(failure);
    if (kind == FakeCall::returns || kind == FakeCall::frees) body(*machine, lock);
    return error;
  }
  const bool unsafe = kind == FakeCall::unsafe || kind == FakeCall::frees;
  if (unsafe && machine->captures() && fake_capture_mode() == CU_STREAM_CAPTURE_MODE_GLOBAL) {
    machine->spoilt = true;
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  return body(*machine, lock);
}

CUresult on_fake_gpu(FakeMachine& machine, const std::function<CUresult(int gpu)>& body) {
  const CUcontext context = fake_contexts().current();
  if (context == nullptr || !machine.owns(context)) return CUDA_ERROR_INVALID_CONTEXT;
  const int gpu = context->gpu;
  if (machine.gpu(gpu).usage.retains == 0) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  if (machine.gpu(gpu).error != CUDA_SUCCESS) return machine.gpu(gpu).error;
  return body(gpu);
}

CUresult on_fake_stream(FakeMachine& machine, CUstream stream,
                        const std::function<CUresult(CUstream_st& stream)>& body) {
  return on_fake_gpu(machine, [&](int gpu) {
    CUstream_st* found = stream;
    if (stream == nullptr || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD) {
      CUstream_st*& known = machine.gpu(gpu).defaults[stream == CU_STREAM_PER_THREAD ? 1 : 0];
      if (known == nullptr) known = machine.add_stream(gpu, true);
      found = known;
    }
    if (!machine.streams.contains(found)) return CUDA_ERROR_INVALID_HANDLE;
    if (found->gpu != gpu) return CUDA_ERROR_INVALID_CONTEXT;
    return body(*found);
  });
}

}  // namespace hora
