// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/comm/collective.h"
#include "core/compose/hosts.h"
#include "core/device/gpu.h"
#include "core/gpu/staged.h"

#include <memory>

namespace hora {

/// A collective for GPUs on several hosts with as many ranks each: an allreduce is a reduce-scatter among the
/// GPUs of each host, one of every slice across hosts by way of the host's memory, and an allgather; so each
/// byte goes to another host once, over whatever connects their CPUs. All else goes as `staged` does it, by
/// way of the host's memory, so NCCL moves nothing between hosts. `within` is NCCL's of this host's ranks,
/// and `host` the one of all ranks for the host's memory. All ranks call it; `stream`, `host`, `staged` and
/// `gpu_wait` (see Staged) must outlive it. Splitting it throws Error(internal).
///
/// 16-bit sums are rounded on each host, and once more across.
std::unique_ptr<Collective> make_gpu_hierarchical(std::unique_ptr<Collective> within,
                                                  std::shared_ptr<Gpu> gpu, Stream& stream, Collective& host,
                                                  const Hosts& hosts, Staged& staged,
                                                  const GpuWait* gpu_wait = nullptr);

}  // namespace hora
