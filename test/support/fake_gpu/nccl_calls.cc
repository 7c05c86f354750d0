// SPDX-License-Identifier: Apache-2.0
// NCCL's functions, of the fake one.
#include "test/support/fake_gpu/fake_communicator.h"
#include "test/support/fake_gpu/fake_elements.h"
#include "test/support/fake_gpu/fake_machine.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>

using hora::fake_group;
using hora::fake_nccl_state;
using hora::FakeKind;
using hora::FakeOperation;

namespace {

constexpr std::size_t kGranularity = std::size_t{2} << 20;  // of memory that ncclMemAlloc takes

/// Counts the call; what it shall return without doing anything, if it shall.
std::optional<ncclResult_t> enter_call(const char* function) {
  auto& state = fake_nccl_state();
  const std::lock_guard lock(state.mutex);
  ++state.calls[function];
  const auto failure = state.failures.find(function);
  if (failure == state.failures.end() || --failure->second.first > 0) return std::nullopt;
  const ncclResult_t error = failure->second.second;
  state.failures.erase(failure);
  state.last_error = fmt::format("{} was told to fail", function);
  return error;
}

bool is_known(ncclComm_t communicator) {
  auto& state = fake_nccl_state();
  const std::lock_guard lock(state.mutex);
  return std::any_of(state.communicators.begin(), state.communicators.end(),
                     [=](const auto& each) { return each.get() == communicator; });
}

/// The frame of a call of a communicator: `when` says which calls may be made while one is in progress.
enum class When { ready, always };
ncclResult_t of_communicator(const char* function, ncclComm_t communicator, When when,
                             const std::function<ncclResult_t(ncclComm&)>& body) {
  auto& state = fake_nccl_state();
  if (!is_known(communicator) || communicator->life == ncclComm::Life::gone) {
    state.misuse(fmt::format("{} of a communicator that is no more", function));
    return ncclInvalidArgument;
  }
  if (communicator->inside.exchange(true)) {
    state.misuse(fmt::format("{} while another thread is in a call", function));
    return ncclInvalidUsage;
  }
  ncclResult_t result = ncclInvalidUsage;
  if (when == When::ready && communicator->pending) {
    state.misuse(fmt::format("{} before the last call has been carried out", function));
  } else if (when == When::ready && communicator->failure() != ncclSuccess) {
    result = communicator->failure();
  } else {
    result = body(*communicator);
  }
  communicator->inside.store(false);
  return result;
}

/// As FakeTag says it.
std::uint64_t registered_at(const ncclComm& communicator, const void* data) {
  const auto* byte = static_cast<const std::byte*>(data);
  const std::lock_guard lock(fake_nccl_state().mutex);
  for (const auto& [handle, known] : communicator.registrations) {
    if (byte >= known.data && byte < known.data + known.bytes)
      return static_cast<std::uint64_t>(byte - known.data) + 1;
  }
  return 0;
}

ncclResult_t deregister(ncclComm& communicator, void* handle, bool window) {
  const std::lock_guard lock(fake_nccl_state().mutex);
  const auto known = communicator.registrations.find(handle);
  if (known == communicator.registrations.end() || known->second.window != window) return ncclInvalidArgument;
  communicator.registrations.erase(known);
  return ncclSuccess;
}

ncclResult_t operate(const char* function, ncclComm_t communicator, FakeOperation operation) {
  auto& group = fake_group();
  if (const auto failure = enter_call(function)) {
    if (group.depth > 0) group.error = *failure;
    return *failure;
  }
  return of_communicator(function, communicator, When::ready, [&](ncclComm& own) -> ncclResult_t {
    const auto multiplied = own.multiplied.find(operation.op);
    if (multiplied != own.multiplied.end()) {
      if (multiplied->second.type != operation.type) return ncclInvalidArgument;
      operation.multiplies = true;
      operation.scalar = multiplied->second.scalar;
      operation.op = ncclSum;
    }
    if (operation.op >= ncclNumOps || operation.root < 0 || operation.root >= own.ranks)
      return ncclInvalidArgument;
    operation.registered_input = registered_at(own, operation.input);
    operation.registered_output = registered_at(own, operation.output);
    if (group.depth == 0) return hora::launch(communicator, {operation});
    group.operations.emplace_back(communicator, operation);
    return ncclSuccess;
  });
}

ncclResult_t launch_group(std::vector<std::pair<ncclComm_t, FakeOperation>> operations) {
  ncclResult_t result = ncclSuccess;
  while (!operations.empty()) {
    ncclComm_t communicator = operations.front().first;
    std::vector<FakeOperation> own;
    for (const auto& [whose, operation] : operations) {
      if (whose == communicator) own.push_back(operation);
    }
    std::erase_if(operations, [=](const auto& one) { return one.first == communicator; });
    const ncclResult_t launched = hora::launch(communicator, std::move(own));
    if (launched != ncclSuccess) result = launched;
  }
  return result;
}

}  // namespace

ncclResult_t ncclGetVersion(int* version) {
  if (const auto failure = enter_call("ncclGetVersion")) return *failure;
  auto& state = fake_nccl_state();
  const std::lock_guard lock(state.mutex);
  *version = state.version;
  return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  if (const auto failure = enter_call("ncclGetUniqueId")) return *failure;
  static std::atomic<int> made{0};
  const auto now = std::chrono::system_clock::now().time_since_epoch().count();
  const std::string name = fmt::format("/fake-nccl-{}-{}-{}", ::getpid(), made.fetch_add(1), now);
  std::memset(id, 0, sizeof *id);
  std::memcpy(id->internal, name.data(), std::min(name.size(), sizeof id->internal - 1));
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t result) {
  static constexpr const char* kTexts[] = {"no error",
                                           "unhandled cuda error",
                                           "unhandled system error",
                                           "internal error",
                                           "invalid argument",
                                           "invalid usage",
                                           "remote process exited or there was a network error",
                                           "NCCL operation in progress"};
  return result >= 0 && result < ncclNumResults ? kTexts[result] : "unknown result code";
}

const char* ncclGetLastError(ncclComm_t /*communicator*/) {
  thread_local std::array<char, 1000> text;  // see FakeContexts
  auto& state = fake_nccl_state();
  const std::lock_guard lock(state.mutex);
  text[state.last_error.copy(text.data(), text.size() - 1)] = '\0';
  return text.data();
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* made, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  if (const auto failure = enter_call("ncclCommInitRankConfig")) return *failure;
  if (config == nullptr || config->magic != 0xcafebeef || config->blocking != 0) return ncclInvalidArgument;
  return hora::begin_communicator(made, std::string(id.internal), rank, ranks);
}

ncclResult_t ncclCommSplit(ncclComm_t communicator, int color, int key, ncclComm_t* made,
                           ncclConfig_t* /*config*/) {
  if (const auto failure = enter_call("ncclCommSplit")) return *failure;
  return of_communicator("ncclCommSplit", communicator, When::ready, [&](ncclComm& own) {
    if (!own.idle()) fake_nccl_state().misuse("ncclCommSplit with work under way");
    return hora::begin_split(communicator, color, key, made);
  });
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t communicator, ncclResult_t* error) {
  if (const auto failure = enter_call("ncclCommGetAsyncError")) return *failure;
  return of_communicator("ncclCommGetAsyncError", communicator, When::always, [&](ncclComm&) {
    *error = hora::progress_of(communicator);
    return ncclSuccess;
  });
}

ncclResult_t ncclCommFinalize(ncclComm_t communicator) {
  if (const auto failure = enter_call("ncclCommFinalize")) return *failure;
  return of_communicator("ncclCommFinalize", communicator, When::ready, [&](ncclComm& own) {
    own.life = ncclComm::Life::finalized;
    return hora::begin_pending(communicator, [&own]() -> std::optional<ncclResult_t> {
      if (!own.idle()) return std::nullopt;
      return ncclSuccess;
    });
  });
}

ncclResult_t ncclCommDestroy(ncclComm_t communicator) {
  if (const auto failure = enter_call("ncclCommDestroy")) return *failure;
  return of_communicator("ncclCommDestroy", communicator, When::ready, [&](ncclComm& own) {
    auto& state = fake_nccl_state();
    if (!own.idle()) state.misuse("ncclCommDestroy with work under way");
    if (own.life != ncclComm::Life::finalized) state.misuse("ncclCommDestroy without ncclCommFinalize");
    bool registered = false;
    {
      const std::lock_guard lock(state.mutex);
      registered = !own.registrations.empty();
    }
    if (registered) state.misuse("ncclCommDestroy with memory that is registered");
    if (!own.multiplied.empty()) state.misuse("ncclCommDestroy with operations that it has made");
    {
      std::unique_lock lock(state.mutex);
      ++state.held_destroys;
      state.changed.wait(lock, [&] { return !state.holds_destroys; });
      --state.held_destroys;
      state.changed.notify_all();
    }
    own.go();
    return ncclSuccess;
  });
}

ncclResult_t ncclCommAbort(ncclComm_t communicator) {
  if (const auto failure = enter_call("ncclCommAbort")) return *failure;
  return of_communicator("ncclCommAbort", communicator, When::always, [&](ncclComm& own) {
    if (fake_group().depth > 0) {
      fake_group().aborts.push_back(communicator);
      return ncclSuccess;
    }
    auto& state = fake_nccl_state();
    bool others = false;
    {
      const std::lock_guard lock(state.mutex);
      others = std::any_of(state.communicators.begin(), state.communicators.end(), [&](const auto& each) {
        return each.get() != &own && each->gpu == own.gpu && each->life != ncclComm::Life::gone &&
               !each->idle();
      });
    }
    if (others) state.misuse("ncclCommAbort of one of several communicators, outside of a group");
    hora::abort_communicators({communicator});
    return ncclSuccess;
  });
}

ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t* op, void* scalar, ncclDataType_t type,
                                      ncclScalarResidence_t residence, ncclComm_t communicator) {
  if (const auto failure = enter_call("ncclRedOpCreatePreMulSum")) return *failure;
  return of_communicator("ncclRedOpCreatePreMulSum", communicator, When::ready, [&](ncclComm& own) {
    if (residence != ncclScalarHostImmediate) return ncclInvalidArgument;
    ncclComm::Multiplied made{type, {}};
    std::memcpy(made.scalar.data(), scalar, hora::fake_size_of(type));
    const std::lock_guard lock(fake_nccl_state().mutex);
    own.multiplied[own.next_op] = made;
    *op = static_cast<ncclRedOp_t>(own.next_op++);
    return ncclSuccess;
  });
}

ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t communicator) {
  if (const auto failure = enter_call("ncclRedOpDestroy")) return *failure;
  return of_communicator("ncclRedOpDestroy", communicator, When::ready, [&](ncclComm& own) {
    const std::lock_guard lock(fake_nccl_state().mutex);
    return own.multiplied.erase(op) == 1 ? ncclSuccess : ncclInvalidArgument;
  });
}

ncclResult_t ncclAllReduce(const void* input, void* output, std::size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t communicator, cudaStream_t stream) {
  return operate("ncclAllReduce", communicator,
                 {FakeKind::all_reduce, input, output, count, type, op, false, {}, 0, stream});
}

ncclResult_t ncclReduce(const void* input, void* output, std::size_t count, ncclDataType_t type,
                        ncclRedOp_t op, int root, ncclComm_t communicator, cudaStream_t stream) {
  return operate("ncclReduce", communicator,
                 {FakeKind::reduce, input, output, count, type, op, false, {}, root, stream});
}

ncclResult_t ncclBroadcast(const void* input, void* output, std::size_t count, ncclDataType_t type, int root,
                           ncclComm_t communicator, cudaStream_t stream) {
  return operate("ncclBroadcast", communicator,
                 {FakeKind::broadcast, input, output, count, type, ncclSum, false, {}, root, stream});
}

ncclResult_t ncclAllGather(const void* input, void* output, std::size_t count, ncclDataType_t type,
                           ncclComm_t communicator, cudaStream_t stream) {
  return operate("ncclAllGather", communicator,
                 {FakeKind::all_gather, input, output, count, type, ncclSum, false, {}, 0, stream});
}

ncclResult_t ncclReduceScatter(const void* input, void* output, std::size_t count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t communicator, cudaStream_t stream) {
  return operate("ncclReduceScatter", communicator,
                 {FakeKind::reduce_scatter, input, output, count, type, op, false, {}, 0, stream});
}

ncclResult_t ncclSend(const void* input, std::size_t count, ncclDataType_t type, int peer,
                      ncclComm_t communicator, cudaStream_t stream) {
  return operate("ncclSend", communicator,
                 {FakeKind::send, input, nullptr, count, type, ncclSum, false, {}, peer, stream});
}

ncclResult_t ncclRecv(void* output, std::size_t count, ncclDataType_t type, int peer, ncclComm_t communicator,
                      cudaStream_t stream) {
  return operate("ncclRecv", communicator,
                 {FakeKind::recv, nullptr, output, count, type, ncclSum, false, {}, peer, stream});
}

ncclResult_t ncclGroupStart() {
  if (const auto failure = enter_call("ncclGroupStart")) return *failure;
  ++fake_group().depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  const auto failure = enter_call("ncclGroupEnd");
  auto& group = fake_group();
  if (group.depth == 0) {
    fake_nccl_state().misuse("ncclGroupEnd without ncclGroupStart");
    return ncclInvalidUsage;
  }
  if (--group.depth > 0) return failure.value_or(ncclSuccess);
  hora::FakeGroup ended;
  std::swap(group, ended);
  if (failure) return *failure;
  if (ended.error != ncclSuccess) return ended.error;
  if (!ended.aborts.empty()) hora::abort_communicators(ended.aborts);
  return launch_group(std::move(ended.operations));
}

ncclResult_t ncclMemAlloc(void** data, std::size_t bytes) {
  if (const auto failure = enter_call("ncclMemAlloc")) return *failure;
  CUdeviceptr made = 0;
  const std::size_t taken = (bytes + kGranularity - 1) / kGranularity * kGranularity;
  if (::cuMemAlloc(&made, taken) != CUDA_SUCCESS) return ncclUnhandledCudaError;
  *data = reinterpret_cast<void*>(made);
  auto& state = fake_nccl_state();
  const std::lock_guard lock(state.mutex);
  state.blocks[static_cast<std::byte*>(*data)] = bytes;
  return ncclSuccess;
}

// At once: unlike the driver's own, it does not wait for the GPU.
ncclResult_t ncclMemFree(void* data) {
  if (const auto failure = enter_call("ncclMemFree")) return *failure;
  auto& state = fake_nccl_state();
  const auto* begin = static_cast<std::byte*>(data);
  bool known = false;
  {
    const std::lock_guard lock(state.mutex);
    const auto block = state.blocks.find(begin);
    if (block == state.blocks.end()) return ncclInvalidArgument;
    for (const auto& each : state.communicators) {
      for (const auto& [handle, registration] : each->registrations)
        known = known ||
                (registration.data < begin + block->second && begin < registration.data + registration.bytes);
    }
    state.blocks.erase(block);
  }
  if (known) state.misuse("ncclMemFree of memory that is registered");
  const auto machine = hora::fake_machine();
  if (!machine) return ncclUnhandledCudaError;
  const std::lock_guard lock(machine->mutex);
  return machine->free(data, false) ? ncclSuccess : ncclUnhandledCudaError;
}

ncclResult_t ncclCommRegister(const ncclComm_t communicator, void* data, std::size_t bytes, void** handle) {
  if (const auto failure = enter_call("ncclCommRegister")) return *failure;
  return of_communicator("ncclCommRegister", communicator, When::ready, [&](ncclComm& own) {
    const std::lock_guard lock(fake_nccl_state().mutex);
    *handle = reinterpret_cast<void*>(own.next_registration++);
    own.registrations[*handle] = {static_cast<std::byte*>(data), bytes, false};
    return ncclSuccess;
  });
}

ncclResult_t ncclCommDeregister(const ncclComm_t communicator, void* handle) {
  if (const auto failure = enter_call("ncclCommDeregister")) return *failure;
  return of_communicator("ncclCommDeregister", communicator, When::ready,
                         [&](ncclComm& own) { return deregister(own, handle, false); });
}

ncclResult_t ncclCommWindowRegister(ncclComm_t communicator, void* data, std::size_t bytes,
                                    ncclWindow_t* window, int flags) {
  if (const auto failure = enter_call("ncclCommWindowRegister")) return *failure;
  return of_communicator("ncclCommWindowRegister", communicator, When::ready, [&](ncclComm&) {
    if (flags != NCCL_WIN_COLL_SYMMETRIC) return ncclInvalidArgument;
    return hora::begin_window(communicator, data, bytes, window);
  });
}

// Work that is under way would find the memory of other ranks unmapped.
ncclResult_t ncclCommWindowDeregister(ncclComm_t communicator, ncclWindow_t window) {
  if (const auto failure = enter_call("ncclCommWindowDeregister")) return *failure;
  return of_communicator("ncclCommWindowDeregister", communicator, When::ready, [&](ncclComm& own) {
    if (!own.idle()) fake_nccl_state().misuse("ncclCommWindowDeregister with work under way");
    return deregister(own, window, true);
  });
}
