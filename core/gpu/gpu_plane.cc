// SPDX-License-Identifier: Apache-2.0
#include "core/gpu/gpu_plane.h"

#include "core/base/bytes.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace hora {
namespace {

constexpr std::size_t kIdentityBytes = 2048;
constexpr std::size_t kMostMachineBytes = 256;
constexpr std::size_t kMostWhyBytes = 1024;

Bytes encode(const GpuIdentity& identity) {
  Writer out;
  out.string(identity.machine.substr(0, kMostMachineBytes)).string(identity.why.substr(0, kMostWhyBytes));
  out.i64(identity.index).u64(static_cast<std::uint64_t>(identity.nccl));
  out.raw(identity.gpu).u64(identity.location);
  Bytes bytes = out.take();
  bytes.resize(kIdentityBytes);
  return bytes;
}

/// As many bytes of each member, in the order of places.
Bytes gather(Collective& host, int places, const Bytes& own) {
  const std::vector<std::size_t> sizes(static_cast<std::size_t>(places), own.size());
  Bytes all(own.size() * sizes.size());
  host.allgather(own.data(), all.data(), sizes);
  return all;
}

GpuIdentity decode(std::span<const std::byte> bytes) {
  Reader in(bytes);
  GpuIdentity identity;
  identity.machine = in.string(kMostMachineBytes);
  identity.why = in.string(kMostWhyBytes);
  identity.index = static_cast<int>(in.i64());
  identity.nccl = static_cast<int>(in.below(1 << 30, "a version of NCCL"));
  const auto gpu = in.raw(identity.gpu.size());
  std::copy(gpu.begin(), gpu.end(), identity.gpu.begin());
  identity.location = in.u64();
  return identity;
}

void check_gpus(std::span<const GpuIdentity> identities, const std::vector<int>& ranks) {
  for (std::size_t i = 0; i < identities.size(); ++i) {
    if (identities[i].index < 0)
      throw Error(Code::unavailable, fmt::format("rank {} has no GPU: {}", ranks[i], identities[i].why));
  }
}

/// The reason why two ranks cannot be in one of NCCL's communicators, which tells GPUs by where they are;
/// empty: they can.
std::string conflict(const GpuIdentity& one, int rank, const GpuIdentity& other, int other_rank) {
  if (one.machine != other.machine) return {};
  if (one.gpu == other.gpu)
    return fmt::format(
        "ranks {} and {} share one GPU (cuda:{} and cuda:{} of theirs), which NCCL does not let them: "
        "start one rank for each GPU, and let each use its own (cuda:<local rank>)",
        rank, other_rank, one.index, other.index);
  if (one.location != other.location) return {};
  return fmt::format(
      "ranks {} and {} use two parts of one GPU (MIG instances), which NCCL does not let them: start one "
      "rank "
      "for each GPU, or switch MIG off",
      rank, other_rank);
}

/// The reason why these ranks cannot use NCCL together; empty: they can.
std::string obstacle(std::span<const GpuIdentity> identities, const std::vector<int>& ranks) {
  for (std::size_t i = 0; i < identities.size(); ++i) {
    if (identities[i].nccl == 0) return fmt::format("rank {} has no NCCL: {}", ranks[i], identities[i].why);
  }
  for (std::size_t i = 1; i < identities.size(); ++i) {
    if (identities[i].nccl != identities[0].nccl)
      return fmt::format("rank {} has NCCL {} and rank {} NCCL {}: give all ranks the same", ranks[0],
                         nccl_version(identities[0].nccl), ranks[i], nccl_version(identities[i].nccl));
    for (std::size_t j = 0; j < i; ++j) {
      std::string why = conflict(identities[j], ranks[j], identities[i], ranks[i]);
      if (!why.empty()) return why;
    }
  }
  return {};
}

/// Whether these machines, of which there are several, have equally many ranks, and several each.
bool two_levels(const std::vector<std::vector<int>>& machines) {
  return machines.front().size() > 1 &&
         std::all_of(machines.begin(), machines.end(),
                     [&](const auto& places) { return places.size() == machines.front().size(); });
}

}  // namespace

std::vector<GpuIdentity> exchange_identities(Collective& host, int place, int places,
                                             const GpuIdentity& mine) {
  const Bytes all = gather(host, places, encode(mine));
  std::vector<GpuIdentity> identities;
  for (std::size_t i = 0; i < all.size() / kIdentityBytes; ++i)
    identities.push_back(decode(std::span(all).subspan(i * kIdentityBytes, kIdentityBytes)));
  identities[static_cast<std::size_t>(place)] = mine;
  return identities;
}

bool all_agree(Collective& host, int places, bool yes) {
  const Bytes all = gather(host, places, {static_cast<std::byte>(yes)});
  return std::find(all.begin(), all.end(), std::byte{0}) == all.end();
}

SharedId share_id(Collective& host, const Hosts& parts, const std::function<NcclId()>& make) {
  NcclId own{};
  std::string why;
  if (parts.place == 0) {
    try {
      own = make();
    } catch (const Error& error) {
      why = std::string(error.what()).substr(0, kMostWhyBytes);
    }
  }
  std::size_t places = 0;
  for (const auto& part : parts.ranks) places += part.size();
  Bytes bytes = Writer().raw(own).string(why).take();
  bytes.resize(kIdentityBytes);
  const Bytes all = gather(host, static_cast<int>(places), bytes);
  SharedId shared;
  for (std::size_t i = 0; i < places && shared.why.empty(); ++i) {
    Reader in(std::span<const std::byte>(all).subspan(i * kIdentityBytes, kIdentityBytes));
    const auto id = in.raw(own.size());
    shared.why = in.string(kMostWhyBytes);
    shared.failed = static_cast<int>(i);
    if (shared.failed == parts.here().front()) std::copy(id.begin(), id.end(), shared.id.begin());
  }
  return shared;
}

std::vector<std::vector<int>> machines_of(std::span<const GpuIdentity> identities) {
  std::vector<std::vector<int>> machines;
  for (std::size_t place = 0; place < identities.size(); ++place) {
    const auto same = [&](const std::vector<int>& places) {
      return identities[static_cast<std::size_t>(places.front())].machine == identities[place].machine;
    };
    auto machine = std::find_if(machines.begin(), machines.end(), same);
    if (machine == machines.end()) machine = machines.insert(machines.end(), std::vector<int>{});
    machine->push_back(static_cast<int>(place));
  }
  return machines;
}

Hosts connected_by_nccl(GpuPlane plane, std::span<const GpuIdentity> identities, int place) {
  if (plane == GpuPlane::hierarchical) return hosts_of(machines_of(identities), place);
  std::vector<int> all(identities.size());
  std::iota(all.begin(), all.end(), 0);
  return hosts_of({std::move(all)}, place);
}

GpuChoice choose_gpu_plane(const std::string& wish, std::span<const GpuIdentity> identities,
                           const std::vector<int>& ranks, bool encrypted) {
  check_gpus(identities, ranks);
  if (wish == "staged") return {GpuPlane::staged, {}};
  const std::string why = obstacle(identities, ranks);
  if (!why.empty()) {
    if (wish != "auto")
      throw Error(Code::unavailable,
                  fmt::format("HORA_GPU_OPERATIONS={}, but {}; or use auto or staged, which go by way "
                              "of the host's memory",
                              wish, why));
    return {GpuPlane::staged,
            fmt::format("tensors on GPUs go by way of the host's memory (staged), as {}", why)};
  }
  const auto machines = machines_of(identities);
  if (machines.size() == 1 || (!encrypted && wish != "hierarchical")) return {GpuPlane::nccl, {}};
  if (wish == "nccl") {
    throw Error(Code::unavailable,
                "HORA_GPU_OPERATIONS=nccl, but NCCL does not encrypt what goes between hosts, as "
                "HORA_ENCRYPTION=all wants; use auto, hierarchical or staged");
  }
  if (two_levels(machines)) return {GpuPlane::hierarchical, {}};
  if (encrypted) {
    return {GpuPlane::staged,
            "tensors on GPUs go by way of the host's memory (staged), as NCCL does not encrypt what goes "
            "between hosts (HORA_ENCRYPTION=all)"};
  }
  return {
      GpuPlane::staged,
      "tensors on GPUs go by way of the host's memory (staged): HORA_GPU_OPERATIONS=hierarchical needs as "
      "many ranks on each host, and more than one"};
}

}  // namespace hora
