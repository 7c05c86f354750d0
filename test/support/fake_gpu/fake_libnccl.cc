// SPDX-License-Identifier: Apache-2.0
// What makes the fake NCCL a library of its own, libnccl.so.2. FAKE_NCCL_VERSION is what ncclGetVersion says,
// FAKE_NCCL_POLLS how often calls are in progress, and with FAKE_NCCL_HOLD_ABORTS=1 aborts do not return.
// PyTorch, whose library is loaded with whatever NCCL there is, finds the rest of the functions that it
// names, which do nothing.
#include "test/support/fake_gpu/fake_communicator.h"

#include <cstdlib>

namespace {

int number(const char* variable, int otherwise) {
  const char* value = std::getenv(variable);
  return value == nullptr ? otherwise : std::atoi(value);
}

[[maybe_unused]] const bool made = [] {
  auto& state = hora::fake_nccl_state();
  state.version = number("FAKE_NCCL_VERSION", state.version);
  state.polls = number("FAKE_NCCL_POLLS", state.polls);
  state.holds_aborts = number("FAKE_NCCL_HOLD_ABORTS", 0) != 0;
  return true;
}();

}  // namespace

ncclResult_t ncclBcast(void*, std::size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t) {
  return ncclInvalidUsage;
}
ncclResult_t ncclAlltoAll(const void*, void*, std::size_t, ncclDataType_t, ncclComm_t, cudaStream_t) {
  return ncclInvalidUsage;
}
ncclResult_t ncclCommCount(ncclComm_t, int*) { return ncclInvalidUsage; }
ncclResult_t ncclCommInitAll(ncclComm_t*, int, const int*) { return ncclInvalidUsage; }
ncclResult_t ncclCommInitRank(ncclComm_t*, int, ncclUniqueId, int) { return ncclInvalidUsage; }
ncclResult_t ncclCommInitRankScalable(ncclComm_t*, int, int, int, ncclUniqueId*, ncclConfig_t*) {
  return ncclInvalidUsage;
}
ncclResult_t ncclCommShrink(ncclComm_t, int*, int, ncclComm_t*, ncclConfig_t*, int) {
  return ncclInvalidUsage;
}
ncclResult_t ncclCommUserRank(ncclComm_t, int*) { return ncclInvalidUsage; }
ncclResult_t ncclCommWindowRegister(ncclComm_t, void*, std::size_t, ncclWindow_t*, int) {
  return ncclInvalidUsage;
}
ncclResult_t ncclCommWindowDeregister(ncclComm_t, ncclWindow_t) { return ncclInvalidUsage; }
ncclResult_t ncclGroupSimulateEnd(ncclSimInfo_t*) { return ncclInvalidUsage; }
extern "C" ncclResult_t ncclDevCommCreate();
extern "C" ncclResult_t ncclDevCommCreate() { return ncclInvalidUsage; }
extern "C" ncclResult_t ncclDevCommDestroy();
extern "C" ncclResult_t ncclDevCommDestroy() { return ncclInvalidUsage; }
