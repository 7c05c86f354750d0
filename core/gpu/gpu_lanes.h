// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/comm/abort_broadcaster.h"
#include "core/comm/group.h"
#include "core/comm/lane.h"
#include "core/device/await.h"
#include "core/gpu/completer.h"
#include "core/gpu/gpu_plane.h"
#include "core/gpu/nccl_connection.h"
#include "core/gpu/own_gpu.h"
#include "core/gpu/staged.h"

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

namespace hora {

/// The objects that an operation on a GPU needs beside its lane. Refers to objects that outlive it.
struct GpuSide {
  std::shared_ptr<Gpu> gpu;
  Completer* completer = nullptr;
  /// The lane's collective, if it is that; else NCCL's, which has no scan or Adasum.
  Staged* staged = nullptr;
  GpuWait* gpu_wait = nullptr;  ///< what the lane waits for the GPU for; null: it never does
};

/// A lane of a group for tensors on this rank's GPU.
struct GpuLane {
  Lane lane;
  GpuSide side;
};

/// The lanes of this rank's GPU. Those of a group are made when its first operation on GPUs is carried out,
/// by all its members together: so a job that has none pays nothing, and groups of which only some ranks have
/// a GPU can be. *Engine only*, but where a function says otherwise.
class GpuLanes {
 public:
  /// `notices`: of batches that are under way on the GPU, on another thread. `resumes`: this is not the job's
  /// first generation, so the ranks go on by way of the host until NCCL is connected anew.
  GpuLanes(OwnGpu& own, const Config& config, AbortBroadcaster& aborter, FlightNotices notices, bool resumes);
  /// Nothing may be under way, unless `fail` has been called.
  ~GpuLanes();

  /// The lanes of a group.
  struct OfGroup {
    Status refused;                     ///< not ok: why no lane can be had as HORA_GPU_OPERATIONS wishes
    GpuPlane plane = GpuPlane::staged;  ///< the one of `direct`
    std::optional<GpuLane> by_host;     ///< by way of the host, which can do everything; nothing: `refused`
    std::optional<GpuLane> direct;      ///< NCCL's, or NCCL's within hosts; nothing: it is not used
  };
  /// All members call it for their group's first operation on GPUs, and get the same lanes; later the same
  /// again. `host` is the group's lane on the host, which must outlive the group. `has_graphs`: graphs of
  /// this rank may ask for operations soon, so NCCL is connected at once and not beside the engine. An
  /// exception that this throws ends the job.
  OfGroup& of(const Members& members, Lane& host, bool has_graphs);
  /// Whether NCCL is still being connected for this group, beside the engine. As long as it is, all members
  /// call `finish_connecting` before each operation: it returns whether they use `direct` from this one on.
  [[nodiscard]] bool is_connecting(int group) const { return pending_ && group == kWorld; }
  bool finish_connecting(const Members& members, Lane& host);
  /// All ranks of the job: a group of these is made. If NCCL connects them all, waits until nothing is under
  /// way on any of them; `host` is their collective.
  void add_group(int group, const std::vector<int>& ranks, Collective& host);
  /// Returns the lanes of a group, to be freed. Nothing may be under way: see `drain`.
  std::shared_ptr<void> remove_group(int group);

  /// Ends all waiting for the GPU with this status; thread-safe.
  void interrupt(const Status& why);
  /// The number of batches that are under way on the GPU. While it is not 0, `check` wants to be called from
  /// time to time.
  [[nodiscard]] std::size_t under_way() const { return machine_ ? completer_.flights() : 0; }
  /// Throws Error if NCCL has failed, or what is under way has.
  void check();
  /// Waits until nothing is under way. Throws Error if that fails.
  void drain();
  /// Ends everything with this status, whatever the GPU and the other ranks do.
  void fail(const Status& why) noexcept;
  /// Whether, since `fail`, the GPU or NCCL may still use what the lanes' users hold: that must never be
  /// destroyed.
  [[nodiscard]] bool left_behind() const { return left_behind_; }
  /// Waits until the GPU has ended all that it was given here: then it touches nobody's memory any more.
  /// Calls `check`, which may throw, now and then. Throws the GPU's error. After `fail`, on any thread.
  void await_end(const std::function<void()>& check) {
    if (machine_) await(machine_->stream->mark().get(), check);
  }

 private:
  /// The GPU as this rank uses it, from the first use on.
  struct Machine {
    std::shared_ptr<Gpu> gpu;
    std::shared_ptr<Stream> stream;
    std::unique_ptr<NcclLane> nccl;  // null: none is used
  };
  void open();
  [[nodiscard]] GpuIdentity own_identity();
  /// Nothing: what is wished for cannot be had. Makes the `id` that a communicator is made with, if one is.
  std::optional<GpuChoice> choose(OfGroup& lanes, const Members& members, Lane& host,
                                  std::vector<GpuIdentity>& identities, NcclId& id);
  void make_staged(OfGroup& lanes, const Members& members, Lane& host);
  [[nodiscard]] bool has_split(const Members& members, GpuPlane plane) const;
  void make_direct(OfGroup& lanes, const Members& members, Lane& host, const Hosts& parts, GpuPlane plane,
                   const NcclId& id, bool has_graphs);
  void set_direct(std::unique_ptr<Collective> direct, OfGroup& lanes, Lane& host, const Hosts& parts,
                  GpuPlane plane);
  void stop_connecting(const Status& why) noexcept;
  [[nodiscard]] bool uses_nccl() const;
  void open_nccl();

  OwnGpu& own_;
  const Config& config_;
  AbortBroadcaster& aborter_;
  const bool resumes_;
  bool left_behind_ = false;  // the GPU or NCCL did not let go: what they may still use is never destroyed
  std::unique_ptr<Machine> machine_;
  GpuWait gpu_wait_;                                   // of what the engine has given to the GPU
  std::map<int, std::unique_ptr<Collective>> splits_;  // of the world's, for groups that have not used theirs
  std::map<int, std::unique_ptr<OfGroup>> lanes_;
  std::unique_ptr<PendingConnection> pending_;  // null: NCCL is connected, or not used
  std::mutex mutex_;
  Status failure_;                     // under the mutex; of what was under way
  std::optional<Status> interrupted_;  // under the mutex
  NcclLane* nccl_ = nullptr;           // under the mutex: machine_'s, once it is there
  Completer completer_;                // last: its thread uses all this
};

}  // namespace hora
