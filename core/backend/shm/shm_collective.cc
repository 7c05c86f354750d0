// SPDX-License-Identifier: Apache-2.0
#include "core/backend/shm/shm_collective.h"

#include "core/backend/shm/allreduce.h"
#include "core/backend/shm/broadcast.h"
#include "core/backend/shm/reducescatter.h"
#include "core/backend/shm/remote_access.h"
#include "core/backend/shm/rounds.h"
#include "core/backend/shm/staged_sums.h"
#include "core/backend/shm/transfers.h"
#include "core/backend/shm/write_guard.h"
#include "core/device/fastest_copy.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

namespace hora::shm {
namespace {

constexpr std::size_t kPackBelow = 64 * 1024;

/// Each operation is a class of its own, which says how its bytes move. They share the frame of a call
/// (rounds.h), the ways to reach memory, and the order in which elements are put together (sums.h).
class ShmCollective final : public Collective {
 public:
  ShmCollective(const Communicator& communicator, std::shared_ptr<PeerMemory> peers, const ShmWays& ways)
      : communicator_(communicator),
        ways_(ways),
        rounds_(communicator),
        access_(communicator, std::move(peers)),
        sums_(communicator, ways.levels),
        fastest_copy_(ways.streams),
        staged_sums_(communicator, rounds_, sums_, fastest_copy_, ways.streams),
        allreduce_(communicator, rounds_, access_, sums_, staged_sums_, ways.direct,
                   ways.levels ? std::optional(true) : std::nullopt),
        reducescatter_(communicator, rounds_, access_, sums_, staged_sums_),
        broadcast_(communicator, rounds_, access_, fastest_copy_),
        transfers_(communicator, rounds_, access_, fastest_copy_) {}
  std::shared_ptr<std::byte> allocate(std::size_t bytes) override {
    return communicator_.arena().allocate(bytes);
  }
  [[nodiscard]] std::size_t pack_below() const override { return kPackBelow; }
  [[nodiscard]] std::size_t best_round() const override { return kRoundInCache; }
  [[nodiscard]] bool owns(const void* data) const override { return communicator_.arena().contains(data); }
  [[nodiscard]] std::uint64_t progress() const noexcept override { return rounds_.progress(); }
  void abort(const Status& why) noexcept override { rounds_.abort(why); }

  void barrier() override {
    call([&] {
      rounds_.open(Call::barrier, 0, 0);
      rounds_.meet();
    });
  }

  void allreduce(std::span<const Segment> segments, const Reduction& reduction) override {
    call([&] {
      for (; segments.size() > kLocations; segments = segments.subspan(kLocations)) {
        allreduce_.run(segments.first(kLocations), reduction);
      }
      allreduce_.run(segments, reduction);
    });
  }

  void broadcast(void* data, std::size_t bytes, int root) override {
    const std::span<std::byte> piece(static_cast<std::byte*>(data), bytes);
    broadcast_all({&piece, 1}, root);
  }

  void broadcast_all(std::span<const std::span<std::byte>> pieces, int root) override {
    call([&] {
      for (; pieces.size() > kLocations; pieces = pieces.subspan(kLocations))
        broadcast_.run(pieces.first(kLocations), root);
      broadcast_.run(pieces, root);
    });
  }

  void allgather(const void* input, void* output, std::span<const std::size_t> bytes) override {
    Transfers::Agreed agreed{Call::allgather, 0, 0, bytes.size()};
    std::vector<Take> takes;
    auto* next = static_cast<std::byte*>(output);
    for (int place = 0; place < communicator_.size(); ++place) {
      const std::size_t length = bytes[static_cast<std::size_t>(place)];
      takes.push_back({place, 0, length, next});
      next += length;
      agreed.total += length;
      agreed.most = std::max(agreed.most, length);
    }
    call([&] { transfers_.run(agreed, input, bytes[own()], takes); });
  }

  void alltoall(const void* input, void* output, std::span<const std::size_t> bytes) override {
    const auto ranks = static_cast<std::size_t>(communicator_.size());
    Transfers::Agreed agreed{Call::alltoall, 0, 0, 0};
    std::vector<Take> takes;
    std::size_t mine = 0;
    auto* next = static_cast<std::byte*>(output);
    for (std::size_t from = 0; from < ranks; ++from) {
      const auto row = bytes.subspan(from * ranks, ranks);
      const auto before = row.begin() + static_cast<std::ptrdiff_t>(own());
      const std::size_t offer = std::accumulate(row.begin(), row.end(), std::size_t{0});
      takes.push_back(
          {static_cast<int>(from), std::accumulate(row.begin(), before, std::size_t{0}), *before, next});
      next += *before;
      agreed.total += offer;
      agreed.most = std::max(agreed.most, offer);
      if (from == own()) mine = offer;
    }
    call([&] { transfers_.run(agreed, input, mine, takes); });
  }

  void reducescatter(const void* input, void* output, std::span<const std::size_t> counts,
                     const Reduction& reduction) override {
    const auto before = counts.begin() + static_cast<std::ptrdiff_t>(own());
    const std::size_t begin = std::accumulate(counts.begin(), before, std::size_t{0});
    const std::size_t total = std::accumulate(before, counts.end(), begin);
    call([&] { reducescatter_.run({input, output, total}, begin, begin + counts[own()], reduction); });
  }

  std::unique_ptr<Collective> split(std::span<const int> members) override {
    const auto place = std::find(members.begin(), members.end(), communicator_.place()) - members.begin();
    const bool member = place < static_cast<std::ptrdiff_t>(members.size());
    std::shared_ptr<RankBlock> own_block = member ? communicator_.arena().take_block() : nullptr;
    const std::uint64_t block = member ? communicator_.arena().offset_of(*own_block) : 0;
    std::vector<std::uint64_t> blocks(static_cast<std::size_t>(communicator_.size()));
    const std::vector<std::size_t> bytes(blocks.size(), sizeof(block));
    allgather(&block, blocks.data(), bytes);
    if (!member) return nullptr;
    std::vector<int> ranks;
    std::vector<std::uint64_t> offsets;
    for (const int other : members) {
      ranks.push_back(communicator_.rank_at(other));
      offsets.push_back(blocks[static_cast<std::size_t>(other)]);
    }
    return std::make_unique<ShmCollective>(Communicator(communicator_.shared_arena(), static_cast<int>(place),
                                                        ranks, offsets, std::move(own_block)),
                                           access_.peers(), ways_);
  }

 private:
  [[nodiscard]] std::size_t own() const { return static_cast<std::size_t>(communicator_.place()); }

  /// A call that fails is this rank's last one, and ends only when nobody reaches into its buffers any more.
  template <typename Body>
  void call(const Body& body) {
    try {
      body();
      throw_if_left(communicator_);
    } catch (const Error& error) {
      const Status cause = rounds_.cause_of(error.status());
      leave(communicator_, access_.peers().get());
      throw Error(cause);
    } catch (const std::exception&) {  // such as too little memory
      leave(communicator_, access_.peers().get());
      throw;
    }
  }

  Communicator communicator_;
  ShmWays ways_;
  Rounds rounds_;
  RemoteAccess access_;
  Sums sums_;
  FastestCopy fastest_copy_;
  StagedSums staged_sums_;
  Allreduce allreduce_;
  Reducescatter reducescatter_;
  Broadcast broadcast_;
  Transfers transfers_;
};

}  // namespace

std::unique_ptr<Collective> make_shm_collective(const Communicator& communicator,
                                                std::shared_ptr<PeerMemory> peers, const ShmWays& ways) {
  return std::make_unique<ShmCollective>(communicator, std::move(peers), ways);
}

std::vector<std::unique_ptr<Collective>> make_shm_group(int ranks, bool access, std::size_t region,
                                                        const ShmWays& ways) {
  const auto mapping =
      std::make_shared<const Mapping>(Arena::create_file(ranks, region), Arena::file_bytes(ranks, region));
  std::vector<std::unique_ptr<Collective>> group;
  group.reserve(static_cast<std::size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) {
    group.push_back(make_shm_collective(Communicator(Arena::make(mapping, rank, ranks, region), rank, ranks),
                                        access ? make_thread_memory() : nullptr, ways));
  }
  return group;
}

}  // namespace hora::shm
