// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "test/support/fake_gpu/fake_driver.h"
#include "test/support/fake_gpu/fake_kernels.h"

#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

// The objects that the driver's handles point to.

struct CUctx_st {
  int gpu = 0;
};

struct CUevent_st {
  int gpu = 0;
  std::uint64_t recorded = 0;               ///< how often
  std::uint64_t reached = 0;                ///< of these
  std::weak_ptr<CUgraph_st> captured = {};  ///< where it was recorded last
};

/// Something to do on a stream.
struct FakeTask {
  std::function<void()> run;    ///< without the machine's lock
  std::function<bool()> ready;  ///< with it; empty: at once
};

/// The parts of a captured graph, in the order in which they were captured, which is one of those in which
/// they may run.
struct CUgraph_st {
  std::uint64_t number = 0;  ///< of the capture
  std::vector<FakeTask> tasks = {};
  std::vector<std::shared_ptr<void>> objects = {};  ///< the user objects that it keeps
};

/// A graph in a form that can run.
struct CUgraphExec_st {
  std::vector<FakeTask> tasks;
  std::vector<std::shared_ptr<void>> objects;
};

struct CUuserObject_st {
  std::shared_ptr<void> owner;  ///< destroys what the object stands for
  unsigned references = 0;      ///< beside those of graphs
};

struct CUstream_st {
  int gpu = 0;
  bool frameworks = false;                 ///< made by a framework, or the default stream
  std::shared_ptr<CUgraph_st> graph = {};  ///< into which it is being captured; null: it is not
  bool closing = false;                    ///< its thread ends when nothing is left
  bool busy = false;
  std::deque<FakeTask> tasks;
};

struct CUmod_st {
  int gpu = 0;
  std::map<std::string, std::unique_ptr<CUfunc_st>> functions;
};

struct CUfunc_st {
  int gpu = 0;
  const hora::FakeKernel* kernel = nullptr;
};

namespace hora {

struct FreeMemory {
  void operator()(std::byte* data) const { std::free(data); }  // NOLINT: from posix_memalign
};

/// A piece of memory: of a GPU, or pinned.
struct FakeBlock {
  std::unique_ptr<std::byte, FreeMemory> data;  ///< null: somebody else's, which was pinned
  std::size_t bytes = 0;
  int gpu = 0;
  bool pinned = false;
  bool ordered = false;  ///< allocated on a stream
};

/// The state of all fake GPUs. One lock for everything; `changed` is told whenever a task is added or done,
/// or a GPU is held, released or broken. Each stream's thread takes the first of its tasks when that is
/// ready, runs it without the lock, and takes the lock to say that it is done.
class FakeMachine {
 public:
  struct GpuState {
    FakeGpu kind;
    CUctx_st context;
    FakeUsage usage;
    CUresult error = CUDA_SUCCESS;
    bool held = false;
    CUstream_st* defaults[2] = {};  ///< the legacy one, and the one per thread (here one for all)
  };

  explicit FakeMachine(std::vector<FakeGpu> gpus);
  ~FakeMachine();

  // All that follows with the lock.

  GpuState& gpu(int index) { return *gpus_.at(static_cast<std::size_t>(index)); }
  [[nodiscard]] int gpus() const { return static_cast<int>(gpus_.size()); }
  bool owns(CUcontext context) const;

  CUstream_st* add_stream(int gpu, bool frameworks);
  void close(CUstream_st* stream);
  /// A stream that is being captured gets nothing to do; its graph does.
  void put(CUstream_st* stream, FakeTask task);
  void begin_capture(CUstream_st* stream);
  /// Of all streams of that graph.
  std::shared_ptr<CUgraph_st> end_capture(CUstream_st* stream);
  /// Waits; without the lock meanwhile.
  void finish(int gpu, std::unique_lock<std::mutex>& lock);
  void finish(CUstream_st* stream, std::unique_lock<std::mutex>& lock);

  CUresult allocate(int gpu, std::size_t bytes, bool pinned, std::byte** data);
  CUresult pin(int gpu, void* data, std::size_t bytes);
  bool free(const void* data, bool pinned);
  /// It has been allocated on a stream.
  void set_ordered(const void* data);
  const FakeBlock* block_of(const void* data) const;
  /// The same, or what `rest` makes of other memory.
  const FakeBlock* owner_of(const void* data) const;
  bool reaches(int gpu, const void* data, std::size_t bytes) const;
  void fail(int gpu, CUresult error);
  bool captures() const;
  bool captures(int gpu) const;

  mutable std::mutex mutex;
  std::condition_variable changed;
  bool initialised = false;
  bool spoilt = false;
  int version = CUDA_VERSION;
  std::optional<FakeBlock> rest;  ///< what memory counts as that is no block, such as a framework's for CPUs
  std::map<std::string, int> calls;
  std::map<std::string, std::pair<int, CUresult>> failures;  ///< how many calls until then
  std::set<CUstream_st*> streams;                            ///< those that may be used
  std::map<CUevent, std::shared_ptr<CUevent_st>> events;
  std::map<CUmodule, std::unique_ptr<CUmod_st>> modules;
  std::map<CUgraph, std::shared_ptr<CUgraph_st>> graphs;
  std::map<CUgraphExec, std::shared_ptr<CUgraphExec_st>> executables;
  std::map<CUuserObject, std::unique_ptr<CUuserObject_st>> objects;

 private:
  void work(CUstream_st& stream, std::unique_lock<std::mutex>& lock);

  std::vector<std::unique_ptr<GpuState>> gpus_;
  std::map<std::uintptr_t, FakeBlock> blocks_;
  std::vector<std::unique_ptr<CUstream_st>> all_streams_;  ///< also those that were closed
  int threads_ = 0;                                        ///< of streams; each ends by itself
  std::uint64_t captures_ = 0;                             ///< so far
  bool ending_ = false;
};

/// The machine that there is, or nothing.
std::shared_ptr<FakeMachine> fake_machine();
void set_fake_machine(std::shared_ptr<FakeMachine> machine);

/// The contexts that a thread has pushed. It has no destructor, as jobs may end in functions that were
/// registered with atexit(), and the thread's objects are gone then.
struct FakeContexts {
  static constexpr std::size_t kMost = 64;
  std::array<CUcontext, kMost> pushed;
  std::size_t count;

  [[nodiscard]] CUcontext current() const { return count == 0 ? nullptr : pushed[count - 1]; }
};
/// Those of the calling thread.
FakeContexts& fake_contexts();
/// The calling thread's.
CUstreamCaptureMode& fake_capture_mode();

/// The kind of a call to the machine. A value.
enum class FakeCall {
  plain,
  unsafe,   ///< spoils captures that other threads make
  returns,  ///< gives something back, also when it fails
  frees,    ///< both
  always,   ///< also before cuInit
};

using FakeLock = std::unique_lock<std::mutex>;

/// The frame of every function: counts, fails if it shall, and else does `body` with the lock.
CUresult fake_call(const char* function, FakeCall kind,
                   const std::function<CUresult(FakeMachine&, FakeLock&)>& body);

/// With the GPU of the current context, if that is all right.
CUresult on_fake_gpu(FakeMachine& machine, const std::function<CUresult(int gpu)>& body);
/// With a stream of the current context's GPU.
CUresult on_fake_stream(FakeMachine& machine, CUstream stream,
                        const std::function<CUresult(CUstream_st& stream)>& body);

}  // namespace hora
