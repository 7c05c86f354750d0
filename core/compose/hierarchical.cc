// SPDX-License-Identifier: Apache-2.0
#include "core/compose/hierarchical.h"

#include "core/compose/blocks.h"
#include "core/compose/cut.h"
#include "core/compose/hosts.h"
#include "core/compose/phases.h"
#include "core/compose/pieces.h"
#include "core/compose/worker.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <utility>

namespace hora {
namespace {

constexpr std::size_t kSmallBytes = 64 * 1024;  // below, messages cost more than bytes
// A chunk, for each host that has a share of it: long enough that a message is not felt, short enough that
// the first and the last chunk, which nothing overlaps, are not either.
constexpr std::size_t kChunkBytes = 512 * 1024;
constexpr std::size_t kMostChunkBytes = 16 * 1024 * 1024;

/// Three steps: within the host, across hosts, within the host.
///
///   allreduce       the host's ranks reduce-scatter in their arena: place i has slice i of the host's sum;
///                   the i-th ranks of all hosts allreduce slice i;                     (across)
///                   the host's ranks allgather the slices
///   broadcast       the root's host hears it; its i-th rank sends slice i to the i-th ranks of the others;
///                   they allgather
///   allgather       the host's ranks gather theirs; the i-th ranks of all hosts gather slices i of that;
///                   the host's ranks allgather
///   reducescatter   the host's ranks reduce-scatter what is for each host; the i-th ranks of all hosts
///                   reduce-scatter slices i; the host's ranks hand each other what is theirs
///
/// There are as many slices as every host has ranks. There is one where there is little to move, as then time
/// goes into messages and not into bytes. Operands are taken in the order of the host's collective within a
/// host, and then by host, as the collective across hosts does it; where a slice or a chunk begins changes
/// nothing about that.
///
/// A large operation goes in chunks, so that all steps are under way at a time. While the worker has chunk k
/// across, the engine does the third step of chunk k - 1. Then it does the first of chunk k + 1.
///
/// Protocol. A rank's engine calls `local_` in one order: first(0), first(1), third(0), first(2), third(1)
/// and so on. The order is the same on all ranks of its host. A rank's worker calls `across_` in the order
/// of the chunks, the same on all hosts. The engine gives the worker chunk k when first(k) has ended here,
/// and begins third(k) when the worker has brought it. No thread waits in a ring: across(k) of a slice waits
/// for first(k) on all hosts; third(k) for across(k) of the ranks of its host; first(k) for third(k - 2) and
/// first(k - 1) of its host. Each waits for what comes earlier in the order first(0), across(0), first(1),
/// third(0), across(1), first(2), third(1)... of all hosts, whose first one waits for nothing.
///
/// Rooms for slices alternate: first(k + 2) writes where third(k) has read, which has then ended on all ranks
/// of the host. Between calls nothing is under way. So `world_` and `across_`, which may share sockets, are
/// never used at the same time by one rank, and in one order by all. A call that fails aborts everything, so
/// that the worker comes back, and waits for it before it gives the caller's memory back.
class Hierarchical final : public Collective {
 public:
  Hierarchical(std::unique_ptr<Collective> world, std::unique_ptr<Collective> local, Hosts hosts)
      : world_(std::move(world)), local_(std::move(local)), hosts_(std::move(hosts)), most_(hosts_.least()) {
    for (std::size_t i = 0; i < most_; ++i) {
      std::vector<int> members;
      for (const auto& host : hosts_.ranks) members.push_back(host[i]);
      auto across = world_->split(members);
      if (across) across_ = std::move(across);
    }
  }

  std::shared_ptr<std::byte> allocate(std::size_t bytes) override { return local_->allocate(bytes); }
  [[nodiscard]] std::size_t pack_below() const override { return local_->pack_below(); }
  [[nodiscard]] bool owns(const void* data) const override { return local_->owns(data); }

  [[nodiscard]] std::uint64_t progress() const noexcept override {
    return local_->progress() + world_->progress() + (across_ ? across_->progress() : 0);
  }
  void abort(const Status& why) noexcept override {
    if (across_) across_->abort(why);
    world_->abort(why);
    local_->abort(why);
  }

  void barrier() override {
    call([&] {
      local_->barrier();
      if (hosts_.place == 0) across_->barrier();
      local_->barrier();
    });
  }

  void allreduce(std::span<const Segment> segments, const Reduction& reduction) override {
    call([&] {
      if (!has_phases(reduction)) return world_->allreduce(segments, reduction);
      allreduce_in_phases(segments, phases_of(reduction), nullptr);
    });
  }

  void allreduce_packed(const Segment& segment, const Reduction& reduction, Packing& packing) override {
    call([&] {
      if (!has_phases(reduction)) return world_->allreduce_packed(segment, reduction, packing);
      allreduce_in_phases({&segment, 1}, phases_of(reduction), &packing);
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
    call([&] { world_->alltoall(input, output, bytes); });
  }

  void reducescatter(const void* input, void* output, std::span<const std::size_t> counts,
                     const Reduction& reduction) override {
    call([&] {
      if (!has_phases(reduction) || !hosts_.in_rank_order())
        return world_->reducescatter(input, output, counts, reduction);
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
  static Status status_of(const std::exception& error) {
    const auto* ours = dynamic_cast<const Error*>(&error);
    return ours != nullptr ? ours->status() : Status{Code::internal, error.what()};
  }

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

  /// All steps of all chunks.
  template <typename First, typename Across, typename Third>
  void run(const Cut& cut, const First& first, const Across& across, const Third& third) {
    if (cut.chunks() == 1) {
      first(0);
      if (across_) across(0);
      return third(0);
    }
    try {
      std::uint64_t task = 0;
      for (std::size_t k = 0; k <= cut.chunks(); ++k) {
        const std::uint64_t before = task;
        if (k < cut.chunks()) {
          first(k);
          if (across_) task = worker_.send([&across, k] { across(k); });
        }
        if (k == 0) continue;
        worker_.await(before);
        third(k - 1);
      }
    } catch (const std::exception& error) {
      abort(status_of(error));
      worker_.drain();
      throw;
    }
  }

  /// The cut of a tensor that is one for all hosts.
  [[nodiscard]] Cut cut(std::size_t total, std::size_t each) const {
    return cut(total, each, std::min(kChunkBytes * hosts_.ranks.size(), kMostChunkBytes));
  }
  /// The cut of blocks, of which each host has its own.
  [[nodiscard]] Cut cut_blocks(std::size_t longest, std::size_t each) const {
    return cut(longest, each, std::min(kChunkBytes, kMostChunkBytes / hosts_.ranks.size()));
  }
  [[nodiscard]] Cut cut(std::size_t total, std::size_t each, std::size_t chunk_bytes) const {
    const bool small = total * each <= kSmallBytes;
    return {total, each, std::max<std::size_t>(small ? total : chunk_bytes / each, 1), small ? 1 : most_};
  }

  /// The share that each rank of this host has of `length` elements when they are cut into slices: elements
  /// of `unit`.
  [[nodiscard]] std::vector<std::size_t> slices_here(const Cut& cut, std::size_t length,
                                                     std::size_t unit) const {
    std::vector<std::size_t> slices;
    for (std::size_t i = 0; i < hosts_.here().size(); ++i) slices.push_back(cut.slice(length, i) * unit);
    return slices;
  }

  // --- allreduce ---

  /// `packing`: of the segment, if it is packed.
  void allreduce_in_phases(std::span<const Segment> segments, const Phases& phases, Packing* packing) {
    const std::size_t each = size_of(phases.within.dtype);
    const Cut cut = this->cut(total_count(segments), each);
    if (cut.total == 0) return;
    const std::size_t bytes = std::min(cut.chunk, cut.total) * each;
    const std::array<std::byte*, 2> slices{room(0, bytes), room(1, bytes)};
    const auto length = [&](std::size_t k) { return cut.begin(k + 1) - cut.begin(k); };
    run(
        cut,
        [&](std::size_t k) {
          if (packing != nullptr) packing->pack(cut.begin(k), length(k));
          const std::byte* input = in_one_piece(segments, &Segment::input, each, cut.begin(k), length(k));
          if (input == nullptr) input = gather(segments, each, cut.begin(k), length(k));
          local_->reducescatter(input, slices[k % 2], slices_here(cut, length(k), 1), phases.within);
        },
        [&](std::size_t k) {
          const Segment slice{slices[k % 2], slices[k % 2], cut.slice(length(k), hosts_.place)};
          if (slice.count > 0) across_->allreduce({&slice, 1}, phases.across);
        },
        [&](std::size_t k) {
          std::byte* output = in_one_piece(segments, &Segment::output, each, cut.begin(k), length(k));
          std::byte* whole = output != nullptr ? output : room(3, bytes);
          local_->allgather(slices[k % 2], whole, slices_here(cut, length(k), each));
          if (output == nullptr) scatter(whole, segments, each, cut.begin(k), length(k));
          if (packing != nullptr) packing->unpack(cut.begin(k), length(k));
        });
  }

  std::byte* gather(std::span<const Segment> segments, std::size_t each, std::size_t begin,
                    std::size_t count) {
    std::byte* const whole = room(2, count * each);
    std::byte* next = whole;
    for_each_range(segments, begin, begin + count, [&](const SegmentRange& range) {
      const auto* from = static_cast<const std::byte*>(segments[range.segment].input) + range.begin * each;
      std::memcpy(next, from, range.count * each);
      next += range.count * each;
    });
    return whole;
  }

  static void scatter(const std::byte* next, std::span<const Segment> segments, std::size_t each,
                      std::size_t begin, std::size_t count) {
    for_each_range(segments, begin, begin + count, [&](const SegmentRange& range) {
      auto* to = static_cast<std::byte*>(segments[range.segment].output) + range.begin * each;
      std::memcpy(to, next, range.count * each);
      next += range.count * each;
    });
  }

  // --- broadcast ---

  void broadcast_bytes(std::byte* data, std::size_t bytes, int root) {
    const Cut cut = this->cut(bytes, 1);
    if (bytes == 0) return;
    const auto [host, place] = hosts_.find(root);
    const bool gives = host == hosts_.own;
    const bool alone = hosts_.here().size() == 1;  // its slice is all there is
    const std::size_t most = std::min(cut.chunk, bytes);
    const std::array<std::byte*, 2> slices{room(0, most), room(1, most)};
    const auto length = [&](std::size_t k) { return cut.begin(k + 1) - cut.begin(k); };
    run(
        cut,
        [&, place = static_cast<int>(place)](std::size_t k) {
          if (gives) local_->broadcast(data + cut.begin(k), length(k), place);
        },
        [&, host = static_cast<int>(host)](std::size_t k) {
          const std::size_t count = cut.slice(length(k), hosts_.place);
          std::byte* lies = data + cut.begin(k) + cut.slice_begin(length(k), hosts_.place);
          if (count > 0) across_->broadcast(gives || alone ? lies : slices[k % 2], count, host);
        },
        [&](std::size_t k) {
          if (!gives && !alone)
            local_->allgather(slices[k % 2], data + cut.begin(k), slices_here(cut, length(k), 1));
        });
  }

  // --- allgather ---

  void allgather_blocks(const std::byte* input, std::byte* output, std::span<const std::size_t> bytes) {
    const Blocks blocks(hosts_, bytes);
    const std::size_t hosts = hosts_.ranks.size();
    const Cut cut = cut_blocks(blocks.longest(), 1);
    if (cut.total == 0) return;
    const std::size_t most = std::min(cut.chunk, cut.total);
    const std::array<std::byte*, 2> own{room(0, most), room(1, most)};
    const std::array<std::byte*, 2> slices{room(2, most * hosts), room(3, most * hosts)};
    std::byte* const whole = room(4, most * hosts);
    const auto length = [&](std::size_t k, std::size_t host) {
      return blocks.length(host, cut.begin(k), cut.begin(k + 1));
    };
    // The part of chunk k that a rank at this place has: the slice of that number of each host's block.
    const auto slices_at = [&](std::size_t k, std::size_t place) {
      std::vector<std::size_t> all;
      for (std::size_t host = 0; host < hosts; ++host) all.push_back(cut.slice(length(k, host), place));
      return all;
    };
    run(
        cut,
        [&](std::size_t k) {
          const auto shares = blocks.shares(hosts_.own, cut.begin(k), cut.begin(k + 1));
          const auto begin = blocks.begin_of_share(hosts_.own, hosts_.place, cut.begin(k));
          local_->allgather(input + begin, own[k % 2], shares);
          blocks.lay_out(hosts_.own, cut.begin(k), length(k, hosts_.own), own[k % 2], output);
        },
        [&](std::size_t k) {
          const auto all = slices_at(k, hosts_.place);
          const std::byte* mine = own[k % 2] + cut.slice_begin(length(k, hosts_.own), hosts_.place);
          if (sum(all) > 0) across_->allgather(mine, slices[k % 2], all);
        },
        [&](std::size_t k) {
          std::vector<std::size_t> shares;
          for (std::size_t i = 0; i < hosts_.here().size(); ++i) shares.push_back(sum(slices_at(k, i)));
          local_->allgather(slices[k % 2], whole, shares);
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
    const Cut cut = cut_blocks(blocks.longest(), each);
    if (cut.total == 0) return;
    const std::size_t most = std::min(cut.chunk, cut.total) * each;
    const std::array<std::byte*, 2> sums{room(0, most * hosts), room(1, most * hosts)};
    const std::array<std::byte*, 2> own{room(2, most), room(3, most)};
    const auto length = [&](std::size_t k, std::size_t host) {
      return blocks.length(host, cut.begin(k), cut.begin(k + 1));
    };
    run(
        cut,
        [&](std::size_t k) {
          std::byte* next = sums[k % 2];
          for (std::size_t host = 0; host < hosts; ++host) {
            const std::byte* from = input + (blocks.begin(host) + cut.begin(k)) * each;
            const auto slices = slices_here(cut, length(k, host), 1);
            if (length(k, host) > 0) local_->reducescatter(from, next, slices, phases.within);
            next += slices[hosts_.place] * each;
          }
        },
        [&](std::size_t k) {
          std::vector<std::size_t> slices;
          for (std::size_t host = 0; host < hosts; ++host)
            slices.push_back(cut.slice(length(k, host), hosts_.place));
          if (sum(slices) > 0) across_->reducescatter(sums[k % 2], own[k % 2], slices, phases.across);
        },
        [&](std::size_t k) {
          const std::size_t begin = blocks.begin_of_share(hosts_.own, hosts_.place, cut.begin(k)) * each;
          if (length(k, hosts_.own) > 0)
            local_->alltoall(own[k % 2], output + begin, slices_to_shares(cut, blocks, k, each));
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
    if (several) world = world_->split(members);
    if (!places.empty() && (shared || !several)) local = local_->split(places);
    const auto self = std::find(members.begin(), members.end(), hosts_.here()[hosts_.place]);
    if (self == members.end()) return nullptr;
    if (!several) return local;
    if (!shared) return world;
    return std::make_unique<Hierarchical>(std::move(world), std::move(local),
                                          hosts_of(hosts, static_cast<int>(self - members.begin())));
  }

  // --- memory ---

  [[nodiscard]] static std::size_t sum(const std::vector<std::size_t>& lengths) {
    return std::accumulate(lengths.begin(), lengths.end(), std::size_t{0});
  }

  /// At least `bytes` of memory that the host's ranks exchange fastest; kept for the next call.
  std::byte* room(std::size_t which, std::size_t bytes) {
    Room& room = rooms_[which];
    if (room.bytes < bytes) {
      room = {};
      room = {local_->allocate(bytes), bytes};
    }
    return room.memory.get();
  }

  struct Room {
    std::shared_ptr<std::byte> memory;
    std::size_t bytes = 0;
  };

  std::unique_ptr<Collective> world_;
  std::unique_ptr<Collective> local_;
  std::unique_ptr<Collective> across_;  // the ranks with this one's place on all hosts; none beyond `most_`
  Hosts hosts_;
  std::size_t most_;  // slices
  std::array<Room, 5> rooms_;
  Worker worker_;
};

}  // namespace

std::unique_ptr<Collective> make_hierarchical(std::unique_ptr<Collective> world,
                                              std::unique_ptr<Collective> local,
                                              std::vector<std::vector<int>> hosts, int rank) {
  return std::make_unique<Hierarchical>(std::move(world), std::move(local), hosts_of(std::move(hosts), rank));
}

}  // namespace hora
