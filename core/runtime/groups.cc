// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/groups.h"

#include "core/base/memory.h"
#include "core/base/operations.h"
#include "core/device/host_stream.h"
#include "core/runtime/running_batch.h"

#include <algorithm>

namespace hora {
namespace {

/// Whether NCCL can do all of an operation's work; else the host does it.
bool nccl_takes(const Request& request) {
  const OperationTraits& operation = traits(request.operation);
  if (!operation.on_gpu || request.op == ReduceOp::adasum) return false;
  // The divisor of an average is known later, and is one for those that are alone only.
  return !operation.reduces || travels_in_blocks(request) || nccl_reduces(reduction_of(request, 2));
}

}  // namespace

Groups::Groups(World& world, const Config& config, const std::vector<int>& all, TensorTable& table,
               Recorder& recorder, Tracer& tracer, AbortBroadcaster& aborter, OwnGpu& gpu,
               FlightNotices on_gpu)
    : world_(world),
      config_(config),
      table_(table),
      recorder_(recorder),
      tracer_(tracer),
      aborter_(aborter),
      thresholds_(first_thresholds(config)),
      world_executor_(world.lane, table, recorder, tracer, {kWorld, all, world.control->rank()},
                      thresholds_.host),
      gpu_(gpu, config, aborter, std::move(on_gpu), world.membership.generation > 1) {
  aborter_.watch(*world.lane.collective);
}

Groups::~Groups() {
  if (!gpu_.left_behind()) return;
  keep_for_ever(std::make_shared<std::vector<Removed>>(std::move(removed_)));
  for (auto& [group, executors] : on_gpu_) {
    for (auto& executor : {executors.by_host, executors.direct}) keep_for_ever(executor);
  }
}

Executor* Groups::find(int group) {
  if (group == kWorld) return &world_executor_;
  const auto subset = subsets_.find(group);
  return subset == subsets_.end() ? nullptr : &subset->second.executor;
}

Executor* Groups::on_gpu(Executor& host, const Request& request) {
  const int group = host.members().group;
  auto known = on_gpu_.find(group);
  if (known == on_gpu_.end()) known = on_gpu_.emplace(group, make_on_gpu(host)).first;
  OnGpu& own = known->second;
  if (gpu_.is_connecting(group) && gpu_.finish_connecting(host.members(), host.lane())) {
    own.direct = executor_on(lanes_of(host).direct, host);
    table_.launched().resume(group);
  }
  return own.direct && nccl_takes(request) ? own.direct.get() : own.by_host.get();
}

GpuLanes::OfGroup& Groups::lanes_of(Executor& host) {
  return gpu_.of(host.members(), host.lane(), table_.takes_only_computed());
}

Groups::OnGpu Groups::make_on_gpu(Executor& host) {
  GpuLanes::OfGroup& lanes = lanes_of(host);
  if (gpu_.is_connecting(host.members().group)) table_.launched().suspend(host.members().group);
  return {executor_on(lanes.by_host, host), executor_on(lanes.direct, host), lanes.refused};
}

std::shared_ptr<Executor> Groups::executor_on(std::optional<GpuLane>& lane, Executor& host) {
  if (!lane) return nullptr;
  return std::make_shared<Executor>(lane->lane, table_, recorder_, tracer_, host.members(), thresholds_.cuda,
                                    lane->side);
}

void Groups::add(int group, const std::vector<int>& ranks) {
  auto collective = world_.lane.collective->split(ranks);
  gpu_.add_group(group, ranks, *world_.lane.collective);
  if (!collective) return;
  aborter_.watch(*collective);
  const auto place = std::lower_bound(ranks.begin(), ranks.end(), world_.control->rank()) - ranks.begin();
  subsets_.try_emplace(group, Lane{make_host_stream(), std::move(collective)}, table_, recorder_, tracer_,
                       Members{group, ranks, static_cast<int>(place)}, thresholds_.host);
}

void Groups::remove(int group, bool users_wait) {
  gpu_.drain();
  Removed removed{subsets_.extract(group), {}, {}};
  if (auto executors = on_gpu_.extract(group)) removed.executors = std::move(executors.mapped());
  removed.lanes = gpu_.remove_group(group);
  if (removed.subset) aborter_.forget(*removed.subset.mapped().lane.collective);
  if (users_wait) {
    removed_.clear();
  } else if (table_.takes_only_computed()) {
    removed_.push_back(std::move(removed));
  }
}

void Groups::fuse_up_to(std::size_t bytes) {
  if (config_.fusion_threshold == 0) {
    thresholds_.host = bytes;
    world_executor_.fuse_up_to(bytes);
    for (auto& [group, subset] : subsets_) subset.executor.fuse_up_to(bytes);
  }
  if (config_.gpu_fusion_threshold == 0 && config_.autotune) {
    thresholds_.cuda = bytes;
    for (auto& [group, executors] : on_gpu_) {
      for (const auto& executor : {executors.by_host, executors.direct}) {
        if (executor) executor->fuse_up_to(bytes);
      }
    }
  }
}

}  // namespace hora
