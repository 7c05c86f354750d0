// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/nccl_module.h"

#include <nccl.h>

#include <string>
#include <vector>

namespace hora::nccl {

/// The functions of NCCL that Hora uses: a table, so that nothing is linked to NCCL and a test can hand in
/// another one. A value.
struct NcclFunctions {
  decltype(&::ncclGetVersion) get_version = nullptr;
  decltype(&::ncclGetUniqueId) get_unique_id = nullptr;
  decltype(&::ncclGetErrorString) get_error_string = nullptr;
  decltype(&::ncclGetLastError) get_last_error = nullptr;

  decltype(&::ncclCommInitRankConfig) init_rank_config = nullptr;
  decltype(&::ncclCommSplit) split = nullptr;
  decltype(&::ncclCommGetAsyncError) get_async_error = nullptr;
  decltype(&::ncclCommFinalize) finalize = nullptr;
  decltype(&::ncclCommDestroy) destroy = nullptr;
  decltype(&::ncclCommAbort) abort = nullptr;

  decltype(&::ncclRedOpCreatePreMulSum) create_pre_mul_sum = nullptr;
  decltype(&::ncclRedOpDestroy) destroy_op = nullptr;
  decltype(&::ncclAllReduce) all_reduce = nullptr;
  decltype(&::ncclReduce) reduce = nullptr;
  decltype(&::ncclBroadcast) broadcast = nullptr;
  decltype(&::ncclAllGather) all_gather = nullptr;
  decltype(&::ncclReduceScatter) reduce_scatter = nullptr;
  decltype(&::ncclSend) send = nullptr;
  decltype(&::ncclRecv) recv = nullptr;
  decltype(&::ncclGroupStart) group_start = nullptr;
  decltype(&::ncclGroupEnd) group_end = nullptr;

  // All null before NCCL 2.19.
  decltype(&::ncclMemAlloc) mem_alloc = nullptr;
  decltype(&::ncclMemFree) mem_free = nullptr;
  decltype(&::ncclCommRegister) register_memory = nullptr;
  decltype(&::ncclCommDeregister) deregister_memory = nullptr;

  // All null before NCCL 2.29.7.
  decltype(&::ncclCommWindowRegister) register_window = nullptr;
  decltype(&::ncclCommWindowDeregister) deregister_window = nullptr;
};

/// Process sets need ncclCommSplit and `splitShare` (2.18). Communicators that do not block, and
/// ncclCommFinalize, without which nothing could be given up, are older (2.14), and so are sums of multiplied
/// elements (2.11) and texts of errors (2.13).
inline constexpr int kOldestNccl = 21'800;
/// ncclMemAlloc and ncclCommRegister.
inline constexpr int kNcclWithMemory = 21'900;
/// Windows are older (2.27). But before 2.29.7 an abort does not end the kernels that use them, so a rank
/// that is gone would stop the GPUs of all others.
inline constexpr int kNcclWithWindows = 22'907;

/// Calls visit(function, name, since) for every function of the table: what the library exports, and the
/// version in which it first did, or kOldestNccl.
template <typename Visit>
void for_each_function(NcclFunctions& nccl, Visit visit) {
  visit(nccl.get_version, "ncclGetVersion", kOldestNccl);
  visit(nccl.get_unique_id, "ncclGetUniqueId", kOldestNccl);
  visit(nccl.get_error_string, "ncclGetErrorString", kOldestNccl);
  visit(nccl.get_last_error, "ncclGetLastError", kOldestNccl);
  visit(nccl.init_rank_config, "ncclCommInitRankConfig", kOldestNccl);
  visit(nccl.split, "ncclCommSplit", kOldestNccl);
  visit(nccl.get_async_error, "ncclCommGetAsyncError", kOldestNccl);
  visit(nccl.finalize, "ncclCommFinalize", kOldestNccl);
  visit(nccl.destroy, "ncclCommDestroy", kOldestNccl);
  visit(nccl.abort, "ncclCommAbort", kOldestNccl);
  visit(nccl.create_pre_mul_sum, "ncclRedOpCreatePreMulSum", kOldestNccl);
  visit(nccl.destroy_op, "ncclRedOpDestroy", kOldestNccl);
  visit(nccl.all_reduce, "ncclAllReduce", kOldestNccl);
  visit(nccl.reduce, "ncclReduce", kOldestNccl);
  visit(nccl.broadcast, "ncclBroadcast", kOldestNccl);
  visit(nccl.all_gather, "ncclAllGather", kOldestNccl);
  visit(nccl.reduce_scatter, "ncclReduceScatter", kOldestNccl);
  visit(nccl.send, "ncclSend", kOldestNccl);
  visit(nccl.recv, "ncclRecv", kOldestNccl);
  visit(nccl.group_start, "ncclGroupStart", kOldestNccl);
  visit(nccl.group_end, "ncclGroupEnd", kOldestNccl);
  visit(nccl.mem_alloc, "ncclMemAlloc", kNcclWithMemory);
  visit(nccl.mem_free, "ncclMemFree", kNcclWithMemory);
  visit(nccl.register_memory, "ncclCommRegister", kNcclWithMemory);
  visit(nccl.deregister_memory, "ncclCommDeregister", kNcclWithMemory);
  visit(nccl.register_window, "ncclCommWindowRegister", kNcclWithWindows);
  visit(nccl.deregister_window, "ncclCommWindowDeregister", kNcclWithWindows);
}

/// An NCCL, and where it was found. A value.
struct OpenNccl {
  NcclFunctions functions;
  NcclLibrary library;
};

/// Where NCCL is looked for in a process that has none: in NVIDIA's Python package, where the dynamic linker
/// looks, and in CUDA's usual folder. The package comes first, because PyTorch needs its NCCL and is given
/// another one if that has been loaded before. `packaged` is the file in it; empty: nobody has asked Python,
/// and it is looked for among the packages that this library lies among.
[[nodiscard]] std::vector<std::string> nccl_paths(const std::string& packaged = {});

/// The NCCL that this process has loaded, under whatever path; else the file `path`, if that is not empty;
/// else the first of `paths` that can be loaded. So there are never two in a process: if `path` is another
/// one than is loaded it is not used, and a warning says so. The library stays loaded until the process ends.
/// Throws Error(unavailable): where it looked and what was wrong there; that it is too old.
[[nodiscard]] OpenNccl open_nccl(const std::string& path, const std::vector<std::string>& paths);

}  // namespace hora::nccl
