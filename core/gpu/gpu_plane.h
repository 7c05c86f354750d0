// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/nccl_module.h"
#include "core/compose/hosts.h"

#include <functional>
#include <span>
#include <string>
#include <vector>

namespace hora {

/// The data that a rank tells the others of its group before their first operation on GPUs. A value.
struct GpuIdentity {
  std::string machine;              ///< equal on two ranks if they may use the same GPU
  std::array<std::byte, 16> gpu{};  ///< Gpu::identity
  std::uint64_t location = 0;       ///< Gpu::location
  int index = 0;                    ///< as this rank counts; -1: it has none
  int nccl = 0;                     ///< its NCCL's version; 0: it has none
  std::string why;                  ///< why it has no NCCL, or no GPU

  bool operator==(const GpuIdentity&) const = default;
};

/// Every member's identity, in the order of places. All members call it; moves as many bytes on every plane.
std::vector<GpuIdentity> exchange_identities(Collective& host, int place, int places,
                                             const GpuIdentity& mine);

/// Whether all members say yes. All of them call it.
bool all_agree(Collective& host, int places, bool yes);

/// The id of a communicator that members are about to make, or why there is none. A value.
struct SharedId {
  NcclId id{};
  std::string why;  ///< empty: there is one for each communicator
  int failed = 0;   ///< the place that could not make one, if there is none
};

/// `parts`: the places of each communicator, as this member sees them; each is in one. The first place of
/// each calls `make`, and the others of the same part get its result. If that fails anywhere, all members get
/// the error of the first place with one. All members call it.
SharedId share_id(Collective& host, const Hosts& parts, const std::function<NcclId()>& make);

/// The places on each machine, by the first of them.
[[nodiscard]] std::vector<std::vector<int>> machines_of(std::span<const GpuIdentity> identities);

/// How tensors on GPUs move between the members of a group: by NCCL; by NCCL within a machine, and by way of
/// the host's memory between machines; by way of the host's memory alone.
enum class GpuPlane { nccl, hierarchical, staged };

/// The places that NCCL connects with each other, as `place` sees them: those of each machine on the
/// hierarchical plane, or all.
[[nodiscard]] Hosts connected_by_nccl(GpuPlane plane, std::span<const GpuIdentity> identities, int place);

/// The plane that was chosen, and a note about it that an operator should read: empty, or a sentence. A
/// value.
struct GpuChoice {
  GpuPlane plane = GpuPlane::nccl;
  std::string note;
};

/// The choice of all members, which each makes by itself, as they know the same. `wish`: HORA_GPU_OPERATIONS;
/// `ranks`: of the identities, for messages; `encrypted`: whether data that goes between hosts is to be.
/// Throws Error(unavailable) if the wished plane cannot be had: why, and what to do.
[[nodiscard]] GpuChoice choose_gpu_plane(const std::string& wish, std::span<const GpuIdentity> identities,
                                         const std::vector<int>& ranks, bool encrypted = false);

}  // namespace hora
