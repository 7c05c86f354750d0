// SPDX-License-Identifier: Apache-2.0
#include "core/backend/tcp/data/tcp_collective.h"

#include "core/backend/tcp/data/allreduce_halving.h"
#include "core/backend/tcp/data/allreduce_ring.h"
#include "core/backend/tcp/data/allreduce_shares.h"
#include "core/backend/tcp/data/blocks.h"
#include "core/backend/tcp/data/broadcast.h"
#include "core/base/cores.h"
#include "core/base/memory.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <numeric>

namespace hora::tcp {
namespace {

constexpr std::size_t kPackBelow = 64 * 1024;

// Where one algorithm overtakes another. Measured with all ranks on two cores, where messages cost most; us
// for shares, halving, ring:
//    4 ranks   16 KiB    90    72    326    32 MiB    75,788  149,233   70,052
//    8 ranks  256 KiB   869   834  2,638     4 MiB    62,925   31,337   21,054
//   16 ranks  256 KiB 4,696 2,076  8,406     4 MiB    74,846   64,259   43,772
// Up to eight ranks shares lose little even there; on cores of their own they have the fewest hops, and sums
// in the order of ranks.
constexpr int kSharesUpTo = 8;
// The most that a rank sends to have it in one hop instead of two. It is about as much as goes over 10 Gb/s
// in the time of a hop.
constexpr std::size_t kAtOnceUpTo = 128 * 1024;
// With more ranks: from here on the 2(p-1) hops of a ring do not count. Bytes for each rank.
constexpr std::size_t kRingFrom = 256 * 1024;

/// Those of all processes of the job that we see. Each may be bound to some of its own.
CoreSet cores_of_neighbours(const World& world) {
  CoreSet all{};
  const std::string& here = world.members[static_cast<std::size_t>(world.membership.rank)].pid_space;
  for (const Member& member : world.members) {
    if (member.pid_space != here) continue;
    const CoreSet cores = usable_cores(member.pid);
    std::transform(all.begin(), all.end(), cores.begin(), all.begin(), std::bit_or());
  }
  return all;
}

class TcpCollective final : public Collective {
 public:
  TcpCollective(std::unique_ptr<Mesh> mesh, const TcpKnobs& knobs) : mesh_(std::move(mesh)), knobs_(knobs) {}

  std::shared_ptr<std::byte> allocate(std::size_t bytes) override { return allocate_zeroed(bytes); }
  [[nodiscard]] std::size_t pack_below() const override { return kPackBelow; }
  [[nodiscard]] std::size_t best_round() const override {
    return knobs_.one_host ? kRoundInCache : Collective::best_round();
  }
  [[nodiscard]] bool owns(const void* /*data*/) const override { return false; }

  void allreduce(std::span<const Segment> segments, const Reduction& reduction) override {
    if (ranks() == 1) return reduce_alone(segments, reduction);
    reduce(SegmentView(segments, size_of(reduction.dtype)), reduction);
  }

  void allreduce_packed(const Segment& segment, const Reduction& reduction, Packing& packing) override {
    if (ranks() == 1) return Collective::allreduce_packed(segment, reduction, packing);
    reduce(SegmentView({&segment, 1}, size_of(reduction.dtype), &packing), reduction);
  }

  void broadcast(void* data, std::size_t bytes, int root) override {
    broadcast_tree(*mesh_, data, bytes, root);
  }

  void allgather(const void* input, void* output, std::span<const std::size_t> bytes) override {
    if (all_to_all()) {
      allgather_at_once(*mesh_, input, output, bytes);
    } else {
      allgather_in_rounds(*mesh_, input, output, bytes);
    }
  }

  void alltoall(const void* input, void* output, std::span<const std::size_t> bytes) override {
    alltoall_at_once(*mesh_, input, output, bytes);
  }

  void reducescatter(const void* input, void* output, std::span<const std::size_t> counts,
                     const Reduction& reduction) override {
    std::vector<std::size_t> bounds(counts.size() + 1);
    std::partial_sum(counts.begin(), counts.end(), bounds.begin() + 1);
    if (ranks() == 1) {
      const Segment segment{input, output, counts[0]};
      reduce_alone({&segment, 1}, reduction);
    } else if (algorithm_for(0, reduction) == Algorithm::shares) {
      reducescatter_shares(*mesh_, input, output, bounds, reduction, scratch_);
    } else {
      reducescatter_halving(*mesh_, input, output, bounds, reduction, scratch_);
    }
  }

  void barrier() override {
    const std::vector<std::size_t> nothing(static_cast<std::size_t>(ranks()));
    allgather(nullptr, nullptr, nothing);
  }

  std::unique_ptr<Collective> split(std::span<const int> members) override {
    ++splits_;  // on all ranks, so that the members give their mesh the same number
    if (std::find(members.begin(), members.end(), mesh_->rank()) == members.end()) return nullptr;
    return std::make_unique<TcpCollective>(mesh_->split(members, splits_), knobs_);
  }

  [[nodiscard]] std::uint64_t progress() const noexcept override { return mesh_->progress(); }
  void abort(const Status& why) noexcept override { mesh_->abort(why); }

 private:
  [[nodiscard]] int ranks() const { return mesh_->ranks(); }

  /// Whether it is right that every rank talks to every other one.
  [[nodiscard]] bool all_to_all() const {
    return knobs_.algorithm ? *knobs_.algorithm == Algorithm::shares : talks_to_all(ranks());
  }

  /// Where sums must not depend on what travels together, length must not count, nor the place in the call.
  [[nodiscard]] Algorithm algorithm_for(std::size_t bytes, const Reduction& reduction) const {
    if (all_to_all() || !PartialSum::travels(reduction)) return Algorithm::shares;
    if (knobs_.algorithm) return *knobs_.algorithm;
    const bool is_long = bytes >= kRingFrom * static_cast<std::size_t>(ranks());
    return is_long && !knobs_.deterministic ? Algorithm::ring : Algorithm::halving;
  }

  void reduce(const SegmentView& view, const Reduction& reduction) {
    switch (algorithm_for(view.bytes(), reduction)) {
      case Algorithm::ring: return allreduce_ring(*mesh_, view, PartialSum(reduction), scratch_);
      case Algorithm::halving: return allreduce_halving(*mesh_, view, PartialSum(reduction), scratch_);
      case Algorithm::shares: break;
    }
    if (view.bytes() * static_cast<std::size_t>(ranks() - 1) <= kAtOnceUpTo) {
      allreduce_at_once(*mesh_, view, reduction, scratch_);
    } else {
      allreduce_shares(*mesh_, view, reduction, scratch_);
    }
  }

  void reduce_alone(std::span<const Segment> segments, const Reduction& reduction) {
    mesh_->throw_if_aborted();
    for (const auto& segment : segments)
      kernels::reduce({&segment.input, 1}, {&segment.output, 1}, segment.count, reduction);
  }

  std::unique_ptr<Mesh> mesh_;
  TcpKnobs knobs_;
  Scratch scratch_;
  std::uint32_t splits_ = 0;
};

}  // namespace

bool talks_to_all(int ranks) { return ranks <= kSharesUpTo; }

TcpKnobs knobs_from(const World& world, const Config& config) {
  TcpKnobs knobs;
  knobs.deterministic = config.deterministic;
  knobs.one_host = world.membership.local_size == world.membership.size;
  knobs.spins =
      world.membership.local_size <= std::min(count_cores(cores_of_neighbours(world)), core_quota());
  return knobs;
}

std::unique_ptr<Collective> make_tcp_collective(std::shared_ptr<Links> links, const TcpKnobs& knobs) {
  std::vector<int> all(static_cast<std::size_t>(links->ranks()));
  std::iota(all.begin(), all.end(), 0);
  return std::make_unique<TcpCollective>(
      std::make_unique<Mesh>(std::move(links), std::move(all), 0, knobs.spins), knobs);
}

}  // namespace hora::tcp
