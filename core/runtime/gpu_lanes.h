// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/comm/alarm.h"
#include "core/gpu/gpu_plane.h"
#include "core/gpu/own_gpu.h"
#include "core/gpu/staged.h"
#include "core/runtime/executor.h"

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

namespace hora {

/// The lanes of this rank's GPU, and the executors of its groups on them. They are made when a group's first
/// decision about tensors on GPUs is carried out, by all its members together: so a job that has none pays
/// nothing, and groups of which only some ranks have a GPU can be. *Engine only.*
class GpuLanes {
 public:
  /// An operation that is under way on the GPU, and fails there, is told to `on_failure`, on another thread;
  /// `on_failure` must not block.
  GpuLanes(OwnGpu& own, const Config& config, TensorTable& table, Recorder& recorder, Tracer& tracer,
           Alarm& alarm, std::function<void(const Status&)> on_failure);
  /// Nothing may be under way, unless `fail` has been called.
  ~GpuLanes();

  /// The executor that carries out such requests of a group: with NCCL where that can, else by way of the
  /// host. `host` is the group's lane there. Null on all members if that cannot be done as
  /// HORA_GPU_OPERATIONS wishes, and `refusal` says why: these tensors fail, and the job goes on. An
  /// exception that this throws ends the job.
  Executor* executor(const Members& members, Lane& host, const Request& request);
  [[nodiscard]] const Status& refusal(int group) const;
  /// All ranks of the job: a group of these is made.
  void add_group(int group, const std::vector<int>& ranks);
  /// Waits until nothing is under way, and lets go of what a group has here.
  void remove_group(int group);
  /// How many bytes travel together at the most, from now on.
  void fuse_up_to(std::size_t bytes);

  /// Ends all waiting for the GPU with this status; thread-safe.
  void interrupt(const Status& why);
  /// Whether anything is under way on the GPU: then `check` wants to be called from time to time.
  [[nodiscard]] bool busy() const;
  /// Throws Error if NCCL has failed, or what is under way has.
  void check();
  /// Waits until nothing is under way. Throws Error if that fails.
  void drain();
  /// Ends everything with this status, whatever the GPU and the other ranks do.
  void fail(const Status& why) noexcept;

 private:
  struct Party;  // a group's lanes and executors
  /// The GPU as this rank uses it, from the first use on.
  struct Machine {
    std::shared_ptr<Gpu> gpu;
    std::shared_ptr<Stream> stream;
    std::unique_ptr<NcclLane> nccl;  // null: none is used
  };
  Party& party(const Members& members, Lane& host);
  void open();
  [[nodiscard]] GpuSeat own_seat();
  /// Nothing: what is wished for cannot be had. Makes the `id` that a communicator is made with, if one is.
  std::optional<GpuChoice> choose(Party& party, const Members& members, Lane& host,
                                  std::vector<GpuSeat>& seats, NcclId& id);
  void make_staged(Party& party, const Members& members, Lane& host);
  void make_fast(Party& party, const Members& members, Lane& host, const std::vector<GpuSeat>& seats,
                 GpuPlane plane, const NcclId& id);
  void open_nccl();
  void let_go(int group);

  OwnGpu& own_;
  const Config& config_;
  TensorTable& table_;
  Recorder& recorder_;
  Tracer& tracer_;
  Alarm& alarm_;
  bool left_behind_ = false;  // the GPU or NCCL did not let go: what they may still use is never destroyed
  std::unique_ptr<Machine> machine_;
  std::size_t fusion_threshold_;
  Errand errand_;                                      // of what the engine has given to the GPU
  std::map<int, std::unique_ptr<Collective>> splits_;  // of the world's, for groups that have not used theirs
  std::map<int, std::unique_ptr<Party>> parties_;
  std::mutex mutex_;
  Status failure_;                     // under the mutex; of what was under way
  std::optional<Status> interrupted_;  // under the mutex
  NcclLane* nccl_ = nullptr;           // under the mutex: machine_'s, once it is there
  Completer completer_;                // last: its thread uses all this
};

}  // namespace hora
