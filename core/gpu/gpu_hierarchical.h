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
/// byte goes to another host once, over whatever connects their CPUs. All else goes as `world` does it, which
/// is NCCL's of all ranks; `host` is the one for the host's memory. All ranks call it; `stream`, `host` and
/// `gpu_wait` (see Staged) must outlive it.
///
/// 16-bit sums are rounded on each host, and once more across.
std::unique_ptr<Collective> make_gpu_hierarchical(std::unique_ptr<Collective> world, std::shared_ptr<Gpu> gpu,
                                                  Stream& stream, Collective& host, const Hosts& hosts,
                                                  const GpuWait* gpu_wait = nullptr);

}  // namespace hora
