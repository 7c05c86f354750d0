// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/nccl_module.h"
#include "core/gpu/gpu_plane.h"

#include <atomic>
#include <exception>
#include <memory>
#include <thread>
#include <utility>

namespace hora {

/// NCCL's communicator while a thread makes it. Nobody else uses the lane until the connection has ended;
/// NcclLane::stop ends it early. For one thread.
class NcclConnection {
 public:
  /// See NcclLane::connect. `lane` must outlive this object.
  NcclConnection(NcclLane& lane, const NcclId& id, int place, int places);
  /// Waits until it has ended.
  ~NcclConnection();
  NcclConnection(const NcclConnection&) = delete;
  NcclConnection& operator=(const NcclConnection&) = delete;

  [[nodiscard]] bool has_ended() const { return ended_; }
  void wait() const { ended_.wait(false); }
  /// Throws the error with which it has ended, if it has.
  void check() const;
  /// The communicator, once. It has ended well.
  [[nodiscard]] std::unique_ptr<Collective> take() { return std::move(made_); }

 private:
  // The thread writes these before `ended_`, which publishes them.
  std::unique_ptr<Collective> made_;
  std::exception_ptr failure_;
  std::atomic<bool> ended_{false};
  std::thread thread_;
};

/// NCCL's connection of all ranks, or of those of this host, and the plane that it is for.
struct PendingConnection {
  PendingConnection(GpuPlane chosen, Hosts connected, NcclLane& lane, const NcclId& id)
      : plane(chosen),
        parts(std::move(connected)),
        connection(lane, id, static_cast<int>(parts.place), static_cast<int>(parts.here().size())) {}

  GpuPlane plane;
  Hosts parts;  ///< see connected_by_nccl
  NcclConnection connection;
};

}  // namespace hora
