// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/nccl/memory.h"
#include "core/backend/nccl/stop_flag.h"
#include "core/backend/nccl_module.h"

#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>

namespace hora::nccl {

/// The objects that the communicators of one lane have in common. A value, of shares.
struct NcclContext {
  std::shared_ptr<const OpenNccl> nccl;
  std::shared_ptr<cuda::CudaGpu> gpu;
  std::shared_ptr<NcclMemory> memory;
  NcclOptions options;
  std::shared_ptr<StopFlag> stop_flag;  ///< set by whoever fails, or is told that a rank is gone
};

/// One of NCCL's communicators. It does not block: each call is put to NCCL, and then NCCL is asked until it
/// has carried the call out. Only for ncclCommDestroy NCCL has no such way. The cause that ends the asking is
/// the stop flag's reason, the time, or a failure. It is thrown, and is the reason of the stop flag from then
/// on. Only an abort of the whole lane ends the work of the communicator, and so the destructor leaves NCCL
/// alone. *Engine only.*
class Communicator {
 public:
  /// Nothing yet.
  explicit Communicator(const NcclContext& context) : context_(context) {}
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  /// Becomes rank `place` of `places`.
  void init(const NcclId& id, int place, int places);
  /// Becomes rank `place` of the `places` ranks of `parent` that are members. All ranks of the parent call
  /// it; of those that are no members `place` is negative, and this stays nothing.
  void split_from(Communicator& parent, int place, int places);
  /// Ends it as is usual: all that was put on streams has been done. False: it failed, or has not ended.
  [[nodiscard]] bool close() noexcept;
  /// It has been aborted, and is nothing any more.
  void forget();

  /// Null: nothing. NCCL's thread writes it during a split.
  [[nodiscard]] ncclComm_t native() const { return __atomic_load_n(&native_, __ATOMIC_ACQUIRE); }
  /// Throws Error(aborted) if NCCL has found a failure meanwhile.
  void check();

  /// `call` takes the communicator to NCCL's function of this name.
  void run(const char* name, const std::function<ncclResult_t(ncclComm_t)>& call);
  /// Puts several calls to NCCL at once: `calls` hands the result of each to what it gets.
  using Take = std::function<void(ncclResult_t)>;
  void run_group(const char* name, const std::function<void(ncclComm_t, const Take&)>& calls);

  /// The sum of elements multiplied by `factor`, in the dtype of `type`; of a few factors it is kept.
  [[nodiscard]] ncclRedOp_t multiplied_sum(ncclDataType_t type, double factor);
  /// Registers the block that `data` lies in with NCCL, if it lies in one that is not registered. That makes
  /// NCCL faster, and must be so on all ranks or on none: they have allocated the block alike, `data` is at
  /// the same place of it, and they call this together. So where NCCL refuses that is an error. A buffer of
  /// Hora's becomes a symmetric window, which GPUs that reach each other's memory reduce fastest.
  void meet(const void* data);
  /// Whether `data` lies in a block of a user's that NCCL has been told of.
  [[nodiscard]] bool knows_of_users(const void* data) const;
  /// Makes NCCL forget the blocks whose users have gone. They go to `parted`: what is on streams may use
  /// them.
  void part(std::vector<std::shared_ptr<NcclBlock>>& parted);

 private:
  struct Multiplied {
    ncclDataType_t type;
    double factor;
    ncclRedOp_t op;
  };
  /// A block that NCCL knows by one of these two; by neither, where NCCL has been told not to register.
  ///
  /// NCCL puts a window at an address that each rank finds for itself, and relies on it being the same on all
  /// ranks. That is so only if all ranks register and deregister windows in one order. Ranks give memory up
  /// at different times, so a window stays until the communicator ends, and its block with it. A user's
  /// memory, which may come and go often, does not become a window.
  struct Known {
    std::shared_ptr<NcclBlock> block;
    ncclWindow_t window = nullptr;
    void* handle = nullptr;
  };

  [[nodiscard]] const NcclFunctions& nccl() const { return context_.nccl->functions; }
  [[nodiscard]] const cuda::PrimaryContext& context() const { return *context_.gpu->context(); }
  /// How much of the GPU's memory NCCL takes meanwhile.
  void note_memory(const std::function<void()>& call);
  void destroy();
  /// Until NCCL has carried out what returned `result`.
  void settle(const char* name, ncclResult_t result);
  void finish(const char* name, ncclResult_t result);
  /// Until a split of `parent` has made this.
  void await_native(Communicator& parent);
  void register_block(Known& known);
  void deregister_block(const Known& known);
  [[nodiscard]] std::string about(const char* name) const;

  NcclContext context_;
  ncclComm_t native_ = nullptr;
  int place_ = 0;
  int places_ = 1;
  std::ptrdiff_t taken_ = 0;          ///< of the GPU's memory, by NCCL
  const char* last_ = "nothing yet";  ///< the last call
  std::list<Multiplied> ops_;         ///< the latest first
  std::map<const std::byte*, Known> known_;
  std::uint64_t releases_ = 0;  ///< of the memory, when it was last looked for what to forget
};

}  // namespace hora::nccl
