// SPDX-License-Identifier: Apache-2.0
#include "test/support/fake_gpu/fake_nccl.h"

#include "test/support/fake_gpu/fake_communicator.h"

#include <cstdlib>
#include <utility>

namespace hora {
namespace {

/// All that there are now; they stay in memory.
std::vector<ncclComm_t> all_communicators() {
  auto& state = fake_nccl_state();
  const std::lock_guard lock(state.mutex);
  std::vector<ncclComm_t> all;
  for (const auto& each : state.communicators) all.push_back(each.get());
  return all;
}

}  // namespace

int fake_nccl_version() {
  const char* const version = std::getenv("FAKE_NCCL_VERSION");
  return version == nullptr ? NCCL_VERSION_CODE : std::atoi(version);
}

FakeNccl::FakeNccl(int version) {
  auto& state = fake_nccl_state();
  const std::lock_guard lock(state.mutex);
  state.version = version;
  state.polls = 1;
  state.calls.clear();
  state.failures.clear();
  state.misuses.clear();
  state.last_error.clear();
  state.blocks.clear();
  state.has_windows = true;
  for (const auto& each : state.communicators) {  // another one's
    each->life = ncclComm::Life::gone;
    each->registrations.clear();
  }
}

FakeNccl::~FakeNccl() {
  auto& state = fake_nccl_state();
  hold_aborts(false);
  hold_destroys(false);
  {
    std::unique_lock lock(state.mutex);
    state.changed.wait(lock, [&] { return state.held_aborts == 0 && state.held_destroys == 0; });
  }
  for (auto* each : all_communicators()) each->stop();
}

nccl::NcclFunctions FakeNccl::table() const {
  auto& state = fake_nccl_state();
  const std::lock_guard lock(state.mutex);
  nccl::NcclFunctions table{&::ncclGetVersion,
                            &::ncclGetUniqueId,
                            &::ncclGetErrorString,
                            &::ncclGetLastError,
                            &::ncclCommInitRankConfig,
                            &::ncclCommSplit,
                            &::ncclCommGetAsyncError,
                            &::ncclCommFinalize,
                            &::ncclCommDestroy,
                            &::ncclCommAbort,
                            &::ncclRedOpCreatePreMulSum,
                            &::ncclRedOpDestroy,
                            &::ncclAllReduce,
                            &::ncclReduce,
                            &::ncclBroadcast,
                            &::ncclAllGather,
                            &::ncclReduceScatter,
                            &::ncclSend,
                            &::ncclRecv,
                            &::ncclGroupStart,
                            &::ncclGroupEnd,
                            &::ncclMemAlloc,
                            &::ncclMemFree,
                            &::ncclCommRegister,
                            &::ncclCommDeregister,
                            &::ncclCommWindowRegister,
                            &::ncclCommWindowDeregister};
  nccl::for_each_function(table, [&](auto& function, const char*, int since) {
    if (since > state.version) function = nullptr;
  });
  return table;
}

void FakeNccl::set_polls(int polls) {
  auto& state = fake_nccl_state();
  const std::lock_guard lock(state.mutex);
  state.polls = polls;
}

void FakeNccl::fail_call(const std::string& function, int nth, ncclResult_t error) {
  auto& state = fake_nccl_state();
  const std::lock_guard lock(state.mutex);
  state.failures[function] = {nth, error};
}

int FakeNccl::calls(const std::string& function) const {
  auto& state = fake_nccl_state();
  const std::lock_guard lock(state.mutex);
  const auto found = state.calls.find(function);
  return found == state.calls.end() ? 0 : found->second;
}

void FakeNccl::fail_communicators(int rank, ncclResult_t error) {
  for (auto* each : all_communicators()) {
    if (each->rank == rank && each->life != ncclComm::Life::gone) each->fail(error);
  }
}

void FakeNccl::hold_aborts(bool hold) {
  auto& state = fake_nccl_state();
  const std::lock_guard lock(state.mutex);
  state.holds_aborts = hold;
  state.changed.notify_all();
}

void FakeNccl::set_windows(bool have) {
  auto& state = fake_nccl_state();
  const std::lock_guard lock(state.mutex);
  state.has_windows = have;
}

void FakeNccl::hold_destroys(bool hold) {
  auto& state = fake_nccl_state();
  const std::lock_guard lock(state.mutex);
  state.holds_destroys = hold;
  state.changed.notify_all();
}

int FakeNccl::held_aborts() const {
  auto& state = fake_nccl_state();
  const std::lock_guard lock(state.mutex);
  return state.held_aborts;
}

int FakeNccl::under_way() const {
  int works = 0;
  for (auto* each : all_communicators()) {
    const std::lock_guard lock(each->mutex);
    if (!each->aborted.load()) works += static_cast<int>(each->works.size());
  }
  return works;
}

std::vector<std::string> FakeNccl::misuses() const {
  auto& state = fake_nccl_state();
  const std::lock_guard lock(state.mutex);
  return state.misuses;
}

FakeNcclUsage FakeNccl::usage() const {
  FakeNcclUsage usage;
  for (auto* each : all_communicators()) {
    if (each->life == ncclComm::Life::gone) continue;
    ++usage.communicators;
    usage.windows += each->windows();
    const std::lock_guard lock(fake_nccl_state().mutex);
    usage.operations += static_cast<int>(each->multiplied.size());
    usage.registrations += static_cast<int>(each->registrations.size());
  }
  auto& state = fake_nccl_state();
  const std::lock_guard lock(state.mutex);
  usage.blocks = static_cast<int>(state.blocks.size());
  return usage;
}

}  // namespace hora
