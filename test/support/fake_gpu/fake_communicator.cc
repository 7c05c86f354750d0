// SPDX-License-Identifier: Apache-2.0
#include "test/support/fake_gpu/fake_communicator.h"

#include "test/support/fake_gpu/fake_machine.h"

#include <cuda.h>
#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <utility>

void ncclComm::fail(ncclResult_t with) {
  const std::lock_guard lock(mutex);
  if (error == ncclSuccess) error = with;
}

ncclResult_t ncclComm::failure() {
  const std::lock_guard lock(mutex);
  return error;
}

bool ncclComm::idle() {
  const std::lock_guard lock(mutex);
  return works.empty();
}

int ncclComm::windows() {
  const std::lock_guard lock(hora::fake_nccl_state().mutex);
  return static_cast<int>(std::count_if(registrations.begin(), registrations.end(),
                                        [](const auto& each) { return each.second.window; }));
}

void ncclComm::stop() {
  aborted.store(true, std::memory_order_release);
  if (rendezvous) rendezvous->notify();
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return running == 0; });
}

void ncclComm::go() {
  stop();
  life = Life::gone;
  pending = {};
  sequel = {};
  rendezvous.reset();
  {
    const std::lock_guard lock(hora::fake_nccl_state().mutex);
    multiplied.clear();
    registrations.clear();
  }
  const auto machine = hora::fake_machine();
  if (memory == nullptr || !machine) return;
  const std::lock_guard lock(machine->mutex);
  machine->free(memory, false);
  memory = nullptr;
}

namespace hora {
namespace {

constexpr std::size_t kCommunicatorBytes = std::size_t{1} << 20;

/// The function that a stream calls.
void CUDA_CB run_work(void* data) {
  auto& work = *static_cast<ncclComm::Work*>(data);
  ncclComm& own = *work.communicator;
  {
    const std::lock_guard lock(own.mutex);
    if (own.aborted.load(std::memory_order_acquire)) return;
    ++own.running;
  }
  FakeWork carrier(*own.rendezvous, own.rank, own.ranks, own.aborted);
  const auto outcome = carrier.run(work.operations);
  if (outcome == FakeTransfers::Outcome::mismatch) {
    if (!carrier.finding().empty()) fake_nccl_state().say(carrier.finding());
    own.fail(ncclInvalidUsage);
  }
  const std::lock_guard lock(own.mutex);
  own.works.remove_if([&](const auto& one) { return &one == &work; });
  --own.running;
  own.changed.notify_all();
}

ncclResult_t put_on_stream(ncclComm_t communicator, std::vector<FakeOperation> operations,
                           CUcontext context) {
  const CUstream stream = operations.front().stream;
  ncclComm::Work* work = nullptr;
  {
    const std::lock_guard lock(communicator->mutex);
    work = &communicator->works.emplace_back(ncclComm::Work{communicator, std::move(operations)});
  }
  ::cuCtxPushCurrent(context);
  const CUresult result = ::cuLaunchHostFunc(stream, run_work, work);
  CUcontext popped = nullptr;
  ::cuCtxPopCurrent(&popped);
  if (result == CUDA_SUCCESS) return ncclSuccess;
  const std::lock_guard lock(communicator->mutex);
  communicator->works.remove_if([&](const auto& one) { return &one == work; });
  return ncclUnhandledCudaError;
}

/// The PCI bus id, by which NCCL tells the GPUs of a machine apart.
int bus_of(int gpu) {
  int bus = 0;
  return ::cuDeviceGetAttribute(&bus, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, gpu) == CUDA_SUCCESS ? bus : -1;
}

std::optional<ncclResult_t> look_who_is_there(ncclComm& own) {
  if (!own.rendezvous->complete()) return std::nullopt;
  const auto [one, other] = own.rendezvous->sharers();
  if (one < 0) return ncclSuccess;
  fake_nccl_state().say(fmt::format("Duplicate GPU detected : rank {} and rank {} both on CUDA device {}",
                                    one, other, bus_of(own.gpu)));
  return ncclInvalidUsage;
}

/// The members of this rank's color, in order.
std::vector<int> members_of(const FakeRendezvous& rendezvous, std::uint32_t number, int ranks, int color) {
  std::vector<int> members;
  for (int rank = 0; rank < ranks; ++rank) {
    if (rendezvous.color(number, rank) == color) members.push_back(rank);
  }
  std::sort(members.begin(), members.end(), [&](int a, int b) {
    return std::tuple(rendezvous.key(number, a), a) < std::tuple(rendezvous.key(number, b), b);
  });
  return members;
}

/// False: the ranks do not agree about who they are.
bool enter(ncclComm& own) {
  own.rendezvous = std::make_shared<FakeRendezvous>(own.name, own.ranks);
  return own.rendezvous->arrive(own.rank, bus_of(own.gpu));
}

ncclComm_t add_communicator() {
  auto& state = fake_nccl_state();
  const std::lock_guard lock(state.mutex);
  state.communicators.push_back(std::make_unique<ncclComm>());
  return state.communicators.back().get();
}

void make_child(ncclComm& parent, std::uint32_t number, int color, ncclComm_t* made) {
  ncclComm_t child = add_communicator();
  child->gpu = parent.gpu.load();
  const auto members = members_of(*parent.rendezvous, number, parent.ranks, color);
  child->name = fmt::format("{}.{}.{}", parent.name, number, color);
  child->ranks = static_cast<int>(members.size());
  child->rank =
      static_cast<int>(std::find(members.begin(), members.end(), parent.rank.load()) - members.begin());
  if (enter(*child)) {
    child->pending = [child] { return look_who_is_there(*child); };
  } else {
    child->fail(ncclInternalError);
  }
  __atomic_store_n(made, child, __ATOMIC_RELEASE);
}

}  // namespace

FakeNcclState& fake_nccl_state() {
  static auto* state = new FakeNcclState;  // streams and aborts may use it until the very end
  return *state;
}

FakeGroup& fake_group() {
  thread_local FakeGroup group;
  return group;
}

void FakeNcclState::misuse(std::string what) {
  const std::lock_guard lock(mutex);
  misuses.push_back(std::move(what));
}

void FakeNcclState::say(std::string what) {
  const std::lock_guard lock(mutex);
  last_error = std::move(what);
}

ncclResult_t begin_pending(ncclComm_t communicator, std::function<std::optional<ncclResult_t>()> done) {
  auto& state = fake_nccl_state();
  {
    const std::lock_guard lock(state.mutex);
    communicator->polls = state.polls;
  }
  communicator->pending = std::move(done);
  return communicator->polls > 0 ? ncclInProgress : progress_of(communicator);
}

ncclResult_t progress_of(ncclComm_t communicator) {
  const ncclResult_t failure = communicator->failure();
  if (failure != ncclSuccess) return failure;
  if (const auto sequel = std::exchange(communicator->sequel, {})) sequel();
  if (!communicator->pending) return ncclSuccess;
  if (communicator->polls-- > 0) return ncclInProgress;
  const auto result = communicator->pending();
  if (!result) return ncclInProgress;
  communicator->pending = {};
  if (*result != ncclSuccess) communicator->fail(*result);
  return *result;
}

ncclResult_t launch(ncclComm_t communicator, std::vector<FakeOperation> operations) {
  std::erase_if(operations, [](const auto& one) { return one.count == 0; });
  if (operations.empty()) return ncclSuccess;
  CUcontext context = nullptr;
  if (::cuCtxGetCurrent(&context) != CUDA_SUCCESS || context == nullptr) return ncclUnhandledCudaError;
  return begin_pending(communicator, [communicator, context, operations = std::move(operations)] {
    return std::optional(put_on_stream(communicator, operations, context));
  });
}

void abort_communicators(const std::vector<ncclComm_t>& communicators) {
  auto& state = fake_nccl_state();
  for (auto* each : communicators) {
    each->aborted.store(true, std::memory_order_release);
    if (each->rendezvous) each->rendezvous->notify();
  }
  {
    std::unique_lock lock(state.mutex);
    ++state.held_aborts;
    state.changed.notify_all();
    state.changed.wait(lock, [&] { return !state.holds_aborts; });
    --state.held_aborts;
  }
  for (auto* each : communicators) each->go();
  state.changed.notify_all();
}

ncclResult_t begin_communicator(ncclComm_t* made, const std::string& name, int rank, int ranks) {
  int gpu = 0;
  if (::cuCtxGetDevice(&gpu) != CUDA_SUCCESS) {
    fake_nccl_state().misuse("ncclCommInitRankConfig without a current context");
    return ncclUnhandledCudaError;
  }
  if (rank < 0 || rank >= ranks || ranks > FakeRendezvous::kMostRanks) return ncclInvalidArgument;
  ncclComm_t own = add_communicator();
  own->name = name;
  own->rank = rank;
  own->ranks = ranks;
  own->gpu = gpu;
  *made = own;
  CUdeviceptr memory = 0;
  if (::cuMemAlloc(&memory, kCommunicatorBytes) != CUDA_SUCCESS) return ncclUnhandledCudaError;
  own->memory = reinterpret_cast<const void*>(memory);
  if (!enter(*own)) {
    fake_nccl_state().say(fmt::format("rank {} of {} is there twice, or of other ranks", rank, ranks));
    own->fail(ncclInvalidUsage);
    return ncclInvalidUsage;
  }
  return begin_pending(own, [own] { return look_who_is_there(*own); });
}

ncclResult_t begin_split(ncclComm_t parent, int color, int key, ncclComm_t* made) {
  const std::uint32_t number = parent->meetings++;
  *made = nullptr;
  parent->rendezvous->ask_to_split(number, parent->rank, color, key);
  const ncclResult_t begun = begin_pending(parent, [=]() -> std::optional<ncclResult_t> {
    if (!parent->rendezvous->all_asked(number)) return std::nullopt;
    if (color != NCCL_SPLIT_NOCOLOR) parent->sequel = [=] { make_child(*parent, number, color, made); };
    return ncclSuccess;
  });
  return begun == ncclInProgress ? ncclSuccess : begun;
}

// The windows that there are say where NCCL would put this one.
ncclResult_t begin_window(ncclComm_t communicator, const void* data, std::size_t bytes, ncclWindow_t* made) {
  *made = nullptr;
  ncclComm& own = *communicator;
  const std::uint32_t number = own.meetings++;
  own.rendezvous->ask_to_split(number, own.rank, own.windows(), static_cast<int>(bytes));
  return begin_pending(communicator, [=, &own]() -> std::optional<ncclResult_t> {
    if (!own.rendezvous->all_asked(number)) return std::nullopt;
    for (int rank = 0; rank < own.ranks; ++rank) {
      const bool alike = own.rendezvous->color(number, rank) == own.rendezvous->color(number, own.rank) &&
                         own.rendezvous->key(number, rank) == own.rendezvous->key(number, own.rank);
      if (!alike) fake_nccl_state().misuse("ncclCommWindowRegister of windows that differ between ranks");
    }
    const std::lock_guard lock(fake_nccl_state().mutex);
    if (!fake_nccl_state().has_windows) return ncclSuccess;
    auto* const handle = reinterpret_cast<void*>(own.next_registration++);
    own.registrations[handle] = {static_cast<const std::byte*>(data), bytes, true};
    *made = static_cast<ncclWindow_t>(handle);
    return ncclSuccess;
  });
}

}  // namespace hora
