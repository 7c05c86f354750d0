// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/comm/collective.h"
#include "core/device/gpu.h"

#include <hora/status.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace hora {

/// The NCCL that this process uses. A value.
struct NcclLibrary {
  std::string path;
  int version = 0;  ///< as ncclGetVersion has it: 22809 is 2.28.9
};

/// Whether NCCL's collectives can carry it out: it has no 16-bit integers, no bitwise and no logical
/// reductions, and multiplies and divides floats alone. It takes bools as bytes of 0 and 1, which they are in
/// every framework.
[[nodiscard]] bool nccl_reduces(const Reduction& reduction);

/// "2.28.9"
[[nodiscard]] std::string nccl_version(int version);

/// The id that tells the ranks of one communicator from all others (ncclUniqueId).
using NcclId = std::array<std::byte, 128>;

/// How this rank takes part in NCCL's communicators. A value.
struct NcclOptions {
  /// The time within which each call into NCCL must have been carried out; then Error(timeout) that names the
  /// call.
  std::chrono::milliseconds call_timeout{30'000};
  /// How long aborting may take; then the communicators are left as they are (leaked).
  std::chrono::milliseconds abort_timeout{5'000};
  /// The same of destroying one, which waits for the other ranks of the host.
  std::chrono::milliseconds destroy_timeout{5'000};
  /// 16-bit floats are summed in float32 and rounded once, instead of once for each rank that adds.
  bool float32_sums = false;
};

/// All NCCL communicators of this rank on one GPU, and the thread that may call NCCL: the engine. Its
/// collectives put their work on `stream` and return at once: the engine marks an Event and waits for that,
/// where it must. *Engine only*, but `stop`, and `Collective::abort` of its collectives, which is the same.
class NcclLane {
 public:
  /// All that is under way must have ended, or been aborted.
  virtual ~NcclLane() = default;

  /// Rank `place` of `places`, which all call it with the id that one of them has made. They use different
  /// GPUs. It may be split, and destroyed as Collective says. Throws Error(timeout), Error(aborted),
  /// Error(unavailable).
  virtual std::unique_ptr<Collective> connect(const NcclId& id, int place, int places) = 0;
  /// Throws Error(aborted) if one of the communicators has failed: NCCL's message, and its call.
  virtual void check() = 0;
  /// Ends the engine's waiting for NCCL, and nothing else: the current call, here or of one of the
  /// collectives, and all later ones throw Error with this status (the first one counts). Does not block,
  /// from any thread.
  virtual void stop(const Status& why) noexcept = 0;
  /// Ends what the communicators are doing on the GPU, all as one group, whatever the other ranks do.
  /// Idempotent. False: NCCL did not return in time, and has been left to itself; nothing here may be used
  /// any more, and memory that was lent to it never be freed.
  virtual bool abort() noexcept = 0;
};

/// The functions of libhora_nccl.so for libhora. That library links neither the CUDA driver nor NCCL, but
/// opens them when it is asked to. Functions throw Error.
struct NcclModule {
  /// How many GPUs this process may use; 0 where the driver finds none. Throws Error(unavailable) without a
  /// driver.
  int (*gpus)() = nullptr;
  /// Throws Error(unavailable) without a driver, or with one that is too old; Error(invalid_argument) if
  /// there is no GPU of this number. The same object as long as somebody has it.
  std::shared_ptr<Gpu> (*open_gpu)(int index) = nullptr;
  /// The NCCL that is in this process already (PyTorch brings one), else the file `named`, else `packaged`,
  /// else the one that is found; the first call counts. Either may be empty. Throws Error(unavailable): where
  /// it looked; that it is too old.
  NcclLibrary (*library)(const std::string& named, const std::string& packaged) = nullptr;
  /// As above `library` must have been called. NCCL waits in a thread for all ranks to come, until they have.
  NcclId (*make_id)() = nullptr;
  /// Memory as from Gpu::allocate, which the lanes of this GPU tell NCCL of when they first meet it. As
  /// above.
  std::shared_ptr<std::byte> (*allocate)(const std::shared_ptr<Gpu>& gpu, std::size_t bytes) = nullptr;
  /// The symmetric address: the number by which ranks know that `data` lies at the same offset of such memory
  /// on all. It is equal if they made the same calls of `allocate` for this GPU, and `data` is as far from
  /// the beginning. Data 64 bytes further in the same memory has the number that is 64 larger, and no data
  /// that lies elsewhere has it. 0: not in such memory, or at no multiple of 64 bytes.
  std::uint64_t (*symmetric_address)(const std::shared_ptr<Gpu>& gpu, const void* data) = nullptr;
  std::unique_ptr<NcclLane> (*make_lane)(std::shared_ptr<Gpu> gpu, Stream& stream,
                                         const NcclOptions& options) = nullptr;
};

/// Throws Error(unavailable) if there is none here. Thread-safe.
[[nodiscard]] const NcclModule& load_nccl();
/// The file that it lies in. Throws as `load_nccl` does.
[[nodiscard]] std::string nccl_module_path();

}  // namespace hora
