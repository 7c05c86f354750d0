// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/comm/abort_broadcaster.h"
#include "core/comm/group.h"
#include "core/comm/world.h"
#include "core/fuse/plan.h"
#include "core/gpu/gpu_lanes.h"
#include "core/runtime/executor.h"

#include <map>
#include <memory>
#include <vector>

namespace hora {

/// The groups that this rank is in, each with its lanes and the executors on them: one for the host's memory,
/// and for tensors on the GPU, from the first of these on, one or two more. Refers to its constructor's
/// arguments, which must outlive it. *Engine only.*
class Groups {
 public:
  /// Begins with all ranks of the job.
  Groups(World& world, const Config& config, const std::vector<int>& all, TensorTable& table,
         Recorder& recorder, Tracer& tracer, AbortBroadcaster& aborter, OwnGpu& gpu, FlightNotices on_gpu);
  /// Nothing may be under way on the GPU, unless `gpu().fail` has been called.
  ~Groups();
  Groups(const Groups&) = delete;
  Groups& operator=(const Groups&) = delete;

  [[nodiscard]] Executor& world() { return world_executor_; }
  [[nodiscard]] GpuLanes& gpu() { return gpu_; }
  [[nodiscard]] const GpuLanes& gpu() const { return gpu_; }
  /// The group's executor on the host. Null: this rank is not in it, or it has been removed.
  [[nodiscard]] Executor* find(int group);

  /// The executor for such a request about tensors on the GPU, in the group of this executor on the host:
  /// with NCCL where that can carry it out, else by way of the host. Null on all members if GPUs cannot be
  /// used as HORA_GPU_OPERATIONS wishes, and `refusal` says why: these tensors fail, and the job goes on. An
  /// exception that this throws ends the job.
  [[nodiscard]] Executor* on_gpu(Executor& host, const Request& request);
  [[nodiscard]] const Status& refusal(int group) const { return on_gpu_.at(group).refused; }

  /// All ranks of the job call it, whether they are in the group or not. `ranks` ascend.
  void add(int group, const std::vector<int>& ranks);
  /// Waits until nothing of any group is under way on the GPU, and lets go of this one's lanes.
  /// `users_wait`: until it has been removed, so no graph of this rank runs.
  void remove(int group, bool users_wait);

  /// How much travels together.
  [[nodiscard]] const FusionThresholds& thresholds() const { return thresholds_; }
  /// Sets what the user has left open to so many bytes, from now on.
  void fuse_up_to(std::size_t bytes);

 private:
  /// A process set that this rank is in.
  struct Subset {
    Subset(Lane own, TensorTable& table, Recorder& recorder, Tracer& tracer, const Members& members,
           std::size_t fusion_threshold)
        : lane(std::move(own)), executor(lane, table, recorder, tracer, members, fusion_threshold) {}
    Lane lane;
    Executor executor;
  };
  /// The executors of one group on its lanes of the GPU.
  struct OnGpu {
    std::shared_ptr<Executor> by_host;
    std::shared_ptr<Executor> direct;  // null: NCCL is not used
    Status refused;                    // there is none
  };
  /// A process set that has been removed. Each member refers to those before it.
  struct Removed {
    std::map<int, Subset>::node_type subset;
    std::shared_ptr<void> lanes;
    OnGpu executors;
  };
  GpuLanes::OfGroup& lanes_of(Executor& host);
  OnGpu make_on_gpu(Executor& host);
  std::shared_ptr<Executor> executor_on(std::optional<GpuLane>& lane, Executor& host);

  World& world_;
  const Config& config_;
  TensorTable& table_;
  Recorder& recorder_;
  Tracer& tracer_;
  AbortBroadcaster& aborter_;
  FusionThresholds thresholds_;
  Executor world_executor_;
  std::map<int, Subset> subsets_;
  GpuLanes gpu_;                  // refers to lanes of the host
  std::map<int, OnGpu> on_gpu_;   // refer to lanes of the GPU
  std::vector<Removed> removed_;  // while there were graphs, as freeing them would wait for one that runs
};

}  // namespace hora
