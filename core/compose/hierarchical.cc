// SPDX-License-Identifier: Apache-2.0
#include "core/compose/hierarchical.h"

#include "core/base/status_of.h"
#include "core/compose/blocks.h"
#include "core/compose/hierarchical_allreduce.h"
#include "core/compose/hosts.h"
#include "core/compose/phases.h"
#include "core/compose/three_steps.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

namespace hora {
namespace {

/// A collective whose operations go in ThreeSteps: within the host, across hosts, within the host.
///
///   allreduce       see allreduce_in_steps
///   broadcast       the root's host hears it; its i-th rank sends slice i to the i-th ranks of the others;
///                   they allgather
///   allgather       the host's ranks gather theirs; the i-th ranks of all hosts gather slices i of that;
///                   the host's ranks allgather
///   reducescatter   the host's ranks reduce-scatter what is for each host; the i-th ranks of all hosts
///                   reduce-scatter slices i; the host's ranks hand each other what is theirs
///
/// A call that fails aborts everything, and is the last one.
class Hierarchical final : public Collective {
 public:
  Hierarchical(std::unique_ptr<Collective> world, std::unique_ptr<Collective> local, Hosts hosts)
      : steps_(std::move(world), std::move(local), std::move(hosts)) {}

  std::shared_ptr<std::byte> allocate(std::size_t bytes) override { return steps_.local().allocate(bytes); }
  [[nodiscard]] std::size_t pack_below() const override { return steps_.local().pack_below(); }
  [[nodiscard]] bool owns(const void* data) const override { return steps_.local().owns(data); }

  [[nodiscard]] std::uint64_t progress() const noexcept override { return steps_.progress(); }
  void abort(const Status& why) noexcept override { steps_.abort(why); }

  void barrier() override {
    call([&] {
      steps_.local().barrier();
      if (hosts_.place == 0) steps_.across().barrier();
      steps_.local().barrier();
    });
  }

  void allreduce(std::span<const Segment> segments, const Reduction& reduction) override {
    call([&] {
      if (!has_phases(reduction)) return steps_.world().allreduce(segments, reduction);
      allreduce_in_steps(steps_, segments, phases_of(reduction), nullptr);
    });
  }

  void allreduce_packed(const Segment& segment, const Reduction& reduction, Packing& packing) override {
    call([&] {
      if (!has_phases(reduction)) return steps_.world().allreduce_packed(segment, reduction, packing);
      allreduce_in_steps(steps_, {&segment, 1}, phases_of(reduction), &packing);
    });
  }

  void broadcast(void* data, std::size_t bytes, int root) override {
    call([&] { broadcast_bytes(static_cast<std::byte*>(data), bytes, root); });
  }

  void allgather(const void* input, void* output, std::span<const std::size_t> bytes) override {
    call([&] {
      allgather_blocks(static_cast<const std::byte*>(input), static_cast<std::byte*>(output), bytes);
    });
  }

  void alltoall(const void* input, void* output, std::span<const std::size_t> bytes) override {
    call([&] { steps_.world().alltoall(input, output, bytes); });
  }

  void reducescatter(const void* input, void* output, std::span<const std::size_t> counts,
                     const Reduction& reduction) override {
    call([&] {
      if (!has_phases(reduction) || !hosts_.in_rank_order())
        return steps_.world().reducescatter(input, output, counts, reduction);
      reducescatter_blocks(static_cast<const std::byte*>(input), static_cast<std::byte*>(output), counts,
                           phases_of(reduction));
    });
  }

  std::unique_ptr<Collective> split(std::span<const int> members) override {
    std::unique_ptr<Collective> result;
    call([&] { result = split_by_hosts(members); });
    return result;
  }

 private:
  /// A call that fails is the last one.
  template <typename Body>
  void call(const Body& body) {
    try {
      body();
    } catch (const std::exception& error) {
      abort(status_of(error));
      throw;
    }
  }

  // --- broadcast ---

  void broadcast_bytes(std::byte* data, std::size_t bytes, int root) {
    const Cut cut = steps_.cut(bytes, 1);
    if (bytes == 0) return;
    const auto [host, place] = hosts_.find(root);
    const bool gives = host == hosts_.own;
    const bool alone = hosts_.here().size() == 1;  // its slice is all there is
    const std::size_t most = std::min(cut.chunk, bytes);
    const std::array<std::byte*, 2> slices{steps_.room(0, most), steps_.room(1, most)};
    const auto length = [&](std::size_t k) { return cut.begin(k + 1) - cut.begin(k); };
    steps_.run(
        cut,
        [&, place = static_cast<int>(place)](std::size_t k) {
          if (gives) steps_.local().broadcast(data + cut.begin(k), length(k), place);
        },
        [&, host = static_cast<int>(host)](std::size_t k) {
          const std::size_t count = cut.slice(length(k), hosts_.place);
          std::byte* lies = data + cut.begin(k) + cut.slice_begin(length(k), hosts_.place);
          if (count > 0) steps_.across().broadcast(gives || alone ? lies : slices[k % 2], count, host);
        },
        [&](std::size_t k) {
          if (!gives && !alone)
            steps_.local().allgather(slices[k % 2], data + cut.begin(k),
                                     steps_.slices_here(cut, length(k), 1));
        });
  }

  // --- allgather ---

  void allgather_blocks(const std::byte* input, std::byte* output, std::span<const std::size_t> bytes) {
    const Blocks blocks(hosts_, bytes);
    const std::size_t hosts = hosts_.ranks.size();
    const Cut cut = steps_.cut_blocks(blocks.longest(), 1);
    if (cut.total == 0) return;
    const std::size_t most = std::min(cut.chunk, cut.total);
    const std::array<std::byte*, 2> own{steps_.room(0, most), steps_.room(1, most)};
    const std::array<std::byte*, 2> slices{steps_.room(2, most * hosts), steps_.room(3, most * hosts)};
    std::byte* const whole = steps_.room(4, most * hosts);
    const auto length = [&](std::size_t k, std::size_t host) {
      return blocks.length(host, cut.begin(k), cut.begin(k + 1));
    };
    // The part of chunk k that a rank at this place has: the slice of that number of each host's block.
    const auto slices_at = [&](std::size_t k, std::size_t place) {
      std::vector<std::size_t> all;
      for (std::size_t host = 0; host < hosts; ++host) all.push_back(cut.slice(length(k, host), place));
      return all;
    };
    steps_.run(
        cut,
        [&](std::size_t k) {
          const auto shares = blocks.shares(hosts_.own, cut.begin(k), cut.begin(k + 1));
          const auto begin = blocks.begin_of_share(hosts_.own, hosts_.place, cut.begin(k));
          steps_.local().allgather(input + begin, own[k % 2], shares);
          blocks.lay_out(hosts_.own, cut.begin(k), length(k, hosts_.own), own[k % 2], output);
        },
        [&](std::size_t k) {
          const auto all = slices_at(k, hosts_.place);
          const std::byte* mine = own[k % 2] + cut.slice_begin(length(k, hosts_.own), hosts_.place);
          if (sum(all) > 0) steps_.across().allgather(mine, slices[k % 2], all);
        },
        [&](std::size_t k) {
          std::vector<std::size_t> shares;
          for (std::size_t i = 0; i < hosts_.here().size(); ++i) shares.push_back(sum(slices_at(k, i)));
          steps_.local().allgather(slices[k % 2], whole, shares);
          const std::byte* next = whole;
          for (std::size_t i = 0; i < cut.slices; ++i) {
            for (std::size_t host = 0; host < hosts; ++host) {
              const std::size_t count = cut.slice(length(k, host), i);
              const std::size_t begin = cut.begin(k) + cut.slice_begin(length(k, host), i);
              if (host != hosts_.own) blocks.lay_out(host, begin, count, next, output);
              next += count;
            }
          }
        });
  }

  // --- reducescatter ---

  void reducescatter_blocks(const std::byte* input, std::byte* output, std::span<const std::size_t> counts,
                            const Phases& phases) {
    const std::size_t each = size_of(phases.within.dtype);
    const Blocks blocks(hosts_, counts);
    const std::size_t hosts = hosts_.ranks.size();
    const Cut cut = steps_.cut_blocks(blocks.longest(), each);
    if (cut.total == 0) return;
    const std::size_t most = std::min(cut.chunk, cut.total) * each;
    const std::array<std::byte*, 2> sums{steps_.room(0, most * hosts), steps_.room(1, most * hosts)};
    const std::array<std::byte*, 2> own{steps_.room(2, most), steps_.room(3, most)};
    const auto length = [&](std::size_t k, std::size_t host) {
      return blocks.length(host, cut.begin(k), cut.begin(k + 1));
    };
    steps_.run(
        cut,
        [&](std::size_t k) {
          std::byte* next = sums[k % 2];
          for (std::size_t host = 0; host < hosts; ++host) {
            const std::byte* from = input + (blocks.begin(host) + cut.begin(k)) * each;
            const auto slices = steps_.slices_here(cut, length(k, host), 1);
            if (length(k, host) > 0) steps_.local().reducescatter(from, next, slices, phases.within);
            next += slices[hosts_.place] * each;
          }
        },
        [&](std::size_t k) {
          std::vector<std::size_t> slices;
          for (std::size_t host = 0; host < hosts; ++host)
            slices.push_back(cut.slice(length(k, host), hosts_.place));
          if (sum(slices) > 0) steps_.across().reducescatter(sums[k % 2], own[k % 2], slices, phases.across);
        },
        [&](std::size_t k) {
          const std::size_t begin = blocks.begin_of_share(hosts_.own, hosts_.place, cut.begin(k)) * each;
          if (length(k, hosts_.own) > 0)
            steps_.local().alltoall(own[k % 2], output + begin, slices_to_shares(cut, blocks, k, each));
        });
  }

  /// How many bytes of slice `from` of this host's chunk are `to`'s: a matrix.
  [[nodiscard]] std::vector<std::size_t> slices_to_shares(const Cut& cut, const Blocks& blocks, std::size_t k,
                                                          std::size_t each) const {
    const std::size_t length = blocks.length(hosts_.own, cut.begin(k), cut.begin(k + 1));
    std::vector<std::size_t> bytes;
    for (std::size_t from = 0; from < hosts_.here().size(); ++from) {
      const std::size_t begin = cut.begin(k) + cut.slice_begin(length, from);
      for (const std::size_t share : blocks.shares(hosts_.own, begin, begin + cut.slice(length, from)))
        bytes.push_back(share * each);
    }
    return bytes;
  }

  // --- split ---

  std::unique_ptr<Collective> split_by_hosts(std::span<const int> members) {
    const auto hosts = spread(hosts_, members);
    const bool several = hosts.size() > 1;
    const bool shared = std::any_of(hosts.begin(), hosts.end(), [](const auto& h) { return h.size() > 1; });
    std::vector<int> places;  // of the members on this host
    for (const int member : members) {
      const auto [host, place] = hosts_.find(member);
      if (host == hosts_.own) places.push_back(static_cast<int>(place));
    }
    std::unique_ptr<Collective> world;
    std::unique_ptr<Collective> local;
    if (several) world = steps_.world().split(members);
    if (!places.empty() && (shared || !several)) local = steps_.local().split(places);
    const auto self = std::find(members.begin(), members.end(), hosts_.here()[hosts_.place]);
    if (self == members.end()) return nullptr;
    if (!several) return local;
    if (!shared) return world;
    return std::make_unique<Hierarchical>(std::move(world), std::move(local),
                                          hosts_of(hosts, static_cast<int>(self - members.begin())));
  }

  [[nodiscard]] static std::size_t sum(const std::vector<std::size_t>& lengths) {
    return std::accumulate(lengths.begin(), lengths.end(), std::size_t{0});
  }

  ThreeSteps steps_;
  const Hosts& hosts_ = steps_.hosts();
};

}  // namespace

std::unique_ptr<Collective> make_hierarchical(std::unique_ptr<Collective> world,
                                              std::unique_ptr<Collective> local,
                                              std::vector<std::vector<int>> hosts, int rank) {
  return std::make_unique<Hierarchical>(std::move(world), std::move(local), hosts_of(std::move(hosts), rank));
}

}  // namespace hora
