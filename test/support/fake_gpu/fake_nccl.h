// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/nccl/library.h"

#include <string>
#include <vector>

namespace hora {

/// The resources of the fake NCCL that are in use. A value.
struct FakeNcclUsage {
  int communicators = 0;  ///< that have neither been destroyed nor aborted
  int operations = 0;     ///< sums of multiplied elements
  int registrations = 0;  ///< of memory, windows too
  int windows = 0;
  int blocks = 0;  ///< of ncclMemAlloc

  bool operator==(const FakeNcclUsage&) const = default;
};

/// The version whose interface the fake NCCL has: FAKE_NCCL_VERSION, or that of <nccl.h>. Tests run as of
/// NCCL 2.28.9, which PyTorch 2.11 brings, and as of 2.30.7, which PyTorch 2.15 brings.
[[nodiscard]] int fake_nccl_version();

/// NCCL on the fake GPUs (FakeDriver): collectives are work on their streams, which moves and reduces the
/// elements. Ranks are threads or processes of a machine, and meet in its shared memory. Communicators do not
/// block: a call is done when ncclCommGetAsyncError has been asked often enough, and until then it is in
/// progress. Sums are taken in the order of ranks, and those of 16-bit floats rounded after each
/// addition. Ranks that do not agree about a call get ncclInvalidUsage. One in a process at a time; its
/// functions are declared by <nccl.h>. Thread-safe.
class FakeNccl {
 public:
  explicit FakeNccl(int version = fake_nccl_version());
  /// Ends all work that waits for other ranks, and all aborts.
  ~FakeNccl();
  FakeNccl(const FakeNccl&) = delete;
  FakeNccl& operator=(const FakeNccl&) = delete;

  /// The functions, as open_nccl gives them; those that this version lacks are null.
  [[nodiscard]] nccl::NcclFunctions table() const;

  /// How often ncclCommGetAsyncError says that a call is in progress, at least (1 at first).
  void set_polls(int polls);
  /// The `nth` call from here on of a function (1: the next) does nothing and returns `error`, once.
  void fail_call(const std::string& function, int nth, ncclResult_t error);
  /// How often it has been called.
  [[nodiscard]] int calls(const std::string& function) const;
  /// All communicators in which this process has that rank fail meanwhile.
  void fail_communicators(int rank, ncclResult_t error);
  /// Aborts do not return from now on; or all do.
  void hold_aborts(bool hold);
  /// The same of ncclCommDestroy, as long as other ranks of the host have not called it.
  void hold_destroys(bool hold);
  /// Whether GPUs reach each other's memory, so that there are windows (true at first).
  void set_windows(bool have);
  /// How many aborts do not.
  [[nodiscard]] int held_aborts() const;
  /// How many pieces of work are running on streams, or wait there.
  [[nodiscard]] int under_way() const;

  /// The calls that NCCL does not allow: from two threads at a time; on a communicator that is no more, or
  /// has not carried out the call before; to end one with work under way, or with memory or operations that
  /// it knows of; to abort one after the other; to free memory that a communicator knows of.
  [[nodiscard]] std::vector<std::string> misuses() const;
  [[nodiscard]] FakeNcclUsage usage() const;
};

}  // namespace hora
