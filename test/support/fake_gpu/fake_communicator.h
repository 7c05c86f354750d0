// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "test/support/fake_gpu/fake_rendezvous.h"
#include "test/support/fake_gpu/fake_work.h"

#include <nccl.h>

#include <atomic>
#include <condition_variable>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

/// The object that ncclComm_t points to. It stays in memory after its end, so that later calls can be
/// detected.
///
/// Calls belong to one thread at a time; members that streams touch have the lock, or are atomic.
struct ncclComm {
  enum class Life { open, finalized, gone };

  /// The work that a stream is to do.
  struct Work {
    ncclComm* communicator = nullptr;
    std::vector<hora::FakeOperation> operations;
  };
  /// A sum of elements that are multiplied.
  struct Multiplied {
    ncclDataType_t type;
    std::array<std::byte, sizeof(double)> scalar;
  };
  struct Registration {
    const std::byte* data;
    std::size_t bytes;
    bool window = false;
  };

  std::string name;
  std::atomic<int> rank{0};
  int ranks = 1;
  std::atomic<int> gpu{0};
  std::shared_ptr<hora::FakeRendezvous> rendezvous;
  std::atomic<bool> inside{false};  ///< a thread is in a call
  std::atomic<Life> life{Life::open};
  /// The call that is in progress: nothing until it has been carried out.
  std::function<std::optional<ncclResult_t>()> pending;
  int polls = 0;  ///< until that is looked at
  /// The continuation of a call that has been carried out: runs at the next query of the call's progress.
  std::function<void()> sequel;
  std::uint32_t meetings = 0;  ///< calls that all ranks make in one order: splits, registrations of windows
  std::map<int, Multiplied> multiplied;  ///< by ncclRedOp_t; changed with the lock of what all calls share
  int next_op = ncclNumOps;
  std::map<void*, Registration> registrations;  ///< with that lock
  std::uintptr_t next_registration = 1;

  const void* memory = nullptr;  ///< of the GPU's, as long as it is there; smaller ones share the first one's

  std::atomic<bool> aborted{false};
  std::mutex mutex;
  std::condition_variable changed;
  std::list<Work> works;  ///< that have not been done
  int running = 0;
  ncclResult_t error = ncclSuccess;

  void fail(ncclResult_t with);
  [[nodiscard]] ncclResult_t failure();
  [[nodiscard]] bool idle();
  /// How many there are.
  [[nodiscard]] int windows();
  /// Ends what is running, and waits until it has ended. Work that waits on streams will do nothing.
  void stop();
  /// Ends the communicator.
  void go();
};

namespace hora {

/// The state that all calls of the fake NCCL share, under one lock.
struct FakeNcclState {
  std::mutex mutex;
  std::condition_variable changed;
  int version = NCCL_VERSION_CODE;
  int polls = 1;
  bool holds_aborts = false;
  int held_aborts = 0;
  bool holds_destroys = false;
  int held_destroys = 0;
  bool has_windows = true;
  std::map<std::string, int> calls;
  std::map<std::string, std::pair<int, ncclResult_t>> failures;  ///< how many calls until then
  std::vector<std::string> misuses;
  std::vector<std::unique_ptr<ncclComm>> communicators;
  std::map<const std::byte*, std::size_t> blocks;
  std::string last_error;

  void misuse(std::string what);
  void say(std::string what);
};
FakeNcclState& fake_nccl_state();

/// The calls that the calling thread has put into the group that it has begun.
struct FakeGroup {
  int depth = 0;
  ncclResult_t error = ncclSuccess;
  std::vector<std::pair<ncclComm_t, FakeOperation>> operations;
  std::vector<ncclComm_t> aborts;
};
FakeGroup& fake_group();

/// Puts the group's work on the streams, now or when it has been asked for often enough.
ncclResult_t launch(ncclComm_t communicator, std::vector<FakeOperation> operations);
/// Aborts them together.
void abort_communicators(const std::vector<ncclComm_t>& communicators);
/// A communicator that begins to meet the others.
ncclResult_t begin_communicator(ncclComm_t* made, const std::string& name, int rank, int ranks);
/// One of the ranks that ask for the same `color` now, in the order of their keys. As NCCL's it says
/// ncclSuccess while the parent is still at it, and `made` is null until a while after that.
ncclResult_t begin_split(ncclComm_t parent, int color, int key, ncclComm_t* made);
/// All ranks make a window now, of as many bytes: the number of those registered before, and not
/// deregistered, is the same on all. Before that `made` is null; and ever, if the GPUs have no windows.
ncclResult_t begin_window(ncclComm_t communicator, const void* data, std::size_t bytes, ncclWindow_t* made);
/// The result of ncclCommGetAsyncError.
ncclResult_t progress_of(ncclComm_t communicator);
/// The call goes on until `done` says how it ended.
ncclResult_t begin_pending(ncclComm_t communicator, std::function<std::optional<ncclResult_t>()> done);

}  // namespace hora
