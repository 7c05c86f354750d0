// SPDX-License-Identifier: Apache-2.0
#include "core/backend/shm/shm_collective.h"

#include "core/backend/shm/broadcast.h"
#include "core/backend/shm/remote_access.h"
#include "core/backend/shm/rounds.h"
#include "core/backend/shm/staged_sums.h"
#include "core/backend/shm/transfers.h"
#include "core/backend/shm/write_all.h"
#include "core/backend/shm/write_by_levels.h"
#include "core/backend/shm/write_guard.h"
#include "core/compose/pieces.h"
#include "core/device/fastest_copy.h"
#include "core/device/tuner.h"

#include <algorithm>
#include <cstring>
#include <initializer_list>
#include <numeric>
#include <optional>
#include <utility>

namespace hora::shm {
namespace {

constexpr std::size_t kPackBelow = 64 * 1024;
// Up to where inline buffers are worth it: with one synchronisation instead of two, but a copy into lines
// that others have read. For buffers in the arena, for private ones, and up to a whole inline buffer when
// synchronisations cost most.
constexpr std::size_t kOneShotBytes = 512;
constexpr std::size_t kPrivateOneShotBytes = 2048;
// From where on more phases may be worth what does not travel between caches and sockets then.
constexpr std::size_t kByLevelsBytes = 256 * 1024;
constexpr std::size_t kScratchBytes = 256 * 1024;  // of each rank's private memory at a time

/// There are three ways to move bytes, chosen alike on all ranks because all see all mailboxes:
///
///  - inline: a few bytes are copied into the own inline buffer before the ranks meet, and read by all after
///    it. There is no second phase, as inline buffers and mailboxes alternate (rank_block.h).
///  - direct: every rank reads and writes the buffers of all, in the arena by loads and stores, private ones
///    through PeerMemory. Allreduce by write-all (write_all.h); or, in the arena, level by level
///    (write_by_levels.h), where some ranks are nearer to each other than others and rank 0 finds that to be
///    faster.
///  - staged: pieces of all travel through the stages (staged_sums.h). If somebody's buffer is private and
///    out of reach; or where that is faster than PeerMemory, which rank 0 finds out for allreduce.
///
/// Elements are put together in the same order in all of them (sums.h), so the result's bits do not depend on
/// the way.
class ShmCollective final : public Collective {
 public:
  ShmCollective(const Communicator& communicator, std::shared_ptr<PeerMemory> peers,
                std::optional<std::size_t> own_block, const ShmWays& ways)
      : communicator_(communicator),
        ways_(ways),
        own_block_(own_block),
        rounds_(communicator),
        access_(communicator, std::move(peers)),
        sums_(communicator, ways.levels),
        write_all_(communicator, rounds_, access_, sums_),
        write_by_levels_(communicator, rounds_, access_),
        fastest_copy_(ways.streams),
        staged_sums_(communicator, rounds_, sums_, fastest_copy_, ways.streams),
        broadcast_(communicator, rounds_, access_, fastest_copy_),
        transfers_(communicator, rounds_, access_, fastest_copy_),
        private_way_(32 * 1024, ways.direct),
        level_way_(kByLevelsBytes, ways.levels ? std::optional(true) : std::nullopt) {}
  ~ShmCollective() override {
    if (own_block_) communicator_.arena().give_back_block(*own_block_);
  }
  ShmCollective(const ShmCollective&) = delete;
  ShmCollective& operator=(const ShmCollective&) = delete;

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
        allreduce_some(segments.first(kLocations), reduction);
      }
      allreduce_some(segments, reduction);
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
    call([&] { reducescatter_any({input, output, total}, begin, begin + counts[own()], reduction); });
  }

  std::unique_ptr<Collective> split(std::span<const int> members) override {
    const auto place = std::find(members.begin(), members.end(), communicator_.place()) - members.begin();
    const bool member = place < static_cast<std::ptrdiff_t>(members.size());
    const std::uint64_t block = member ? communicator_.arena().take_block() : 0;
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
    return std::make_unique<ShmCollective>(
        Communicator(communicator_.shared_arena(), static_cast<int>(place), ranks, offsets), access_.peers(),
        block, ways_);
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
      leave(communicator_);
      throw Error(cause);
    } catch (const std::exception&) {  // such as too little memory
      leave(communicator_);
      throw;
    }
  }

  /// Whether the buffers of all ranks that stand first in these lists of the mailboxes lie in the arena.
  [[nodiscard]] bool all_in_arena(
      std::size_t count, std::initializer_list<std::array<Location, kLocations> Mailbox::*> lists) const {
    for (int place = 0; place < communicator_.size(); ++place) {
      for (const auto list : lists) {
        const auto& locations = rounds_.mailbox(place).*list;
        const bool all =
            std::all_of(locations.begin(), locations.begin() + static_cast<std::ptrdiff_t>(count),
                        [](const Location& location) { return location.in_arena != 0; });
        if (!all) return false;
      }
    }
    return true;
  }

  // --- allreduce ---

  void allreduce_some(std::span<const Segment> segments, const Reduction& reduction) {
    const std::size_t bytes = total_count(segments) * size_of(reduction.dtype);
    const auto detail = segments.size() << 16 | static_cast<std::uint64_t>(reduction.dtype) << 8 |
                        static_cast<std::uint64_t>(reduction.op);
    Mailbox& own = rounds_.open(Call::allreduce, bytes, detail);
    bool in_arena = true;
    for (std::size_t i = 0; i < segments.size(); ++i) {
      own.inputs[i] = access_.locate(segments[i].input);
      own.outputs[i] = access_.locate(segments[i].output);
      in_arena = in_arena && own.inputs[i].in_arena != 0 && own.outputs[i].in_arena != 0;
    }
    own.direct = private_way_.way(bytes);
    own.by_levels = level_way_.way(bytes);
    own.is_inline = bytes <= most_inline(in_arena) ? 1 : 0;
    if (own.is_inline != 0)
      gather(rounds_.inline_buffer(communicator_.place()), segments, size_of(reduction.dtype));
    rounds_.meet();
    int inlined = 0;
    for (int place = 0; place < communicator_.size(); ++place)
      inlined += rounds_.mailbox(place).is_inline != 0 ? 1 : 0;
    if (inlined == communicator_.size()) return allreduce_inline(segments, reduction);
    if (inlined > 0) return allreduce_mixed(segments, reduction);
    if (all_in_arena(segments.size(), {&Mailbox::inputs, &Mailbox::outputs})) {
      return allreduce_in_arena(segments, reduction, bytes);
    }
    allreduce_private(segments, reduction, bytes);
  }

  void allreduce_in_arena(std::span<const Segment> segments, const Reduction& reduction, std::size_t bytes) {
    if (bytes < kByLevelsBytes || !sums_.by_levels(reduction)) {
      write_all_.run(segments, reduction);
      return rounds_.phase();
    }
    const auto start = Clock::now();
    const bool by_levels = rounds_.mailbox(0).by_levels != 0;
    if (by_levels) {
      write_by_levels_.run(sums_.levels(), segments, reduction);
    } else {
      write_all_.run(segments, reduction);
    }
    rounds_.phase();
    level_way_.note(by_levels ? 1 : 0, bytes, Clock::now() - start);
  }

  void allreduce_private(std::span<const Segment> segments, const Reduction& reduction, std::size_t bytes) {
    if (!access_.everything()) return staged_sums_.allreduce(segments, reduction);
    const auto start = Clock::now();
    const bool direct = rounds_.mailbox(0).direct != 0;
    if (direct) {
      write_all_.run(segments, reduction);
      rounds_.phase();
    } else {
      staged_sums_.allreduce(segments, reduction);
    }
    private_way_.note(direct ? 1 : 0, bytes, Clock::now() - start);
  }

  [[nodiscard]] std::size_t most_inline(bool in_arena) const {
    if (rounds_.crowded()) return kInlineBytes;
    return in_arena ? kOneShotBytes : kPrivateOneShotBytes;
  }

  /// One segment's input after the other.
  static void gather(std::byte* to, std::span<const Segment> segments, std::size_t each) {
    for (const auto& segment : segments) {
      if (segment.count > 0) std::memcpy(to, segment.input, segment.count * each);
      to += segment.count * each;
    }
  }

  void allreduce_inline(std::span<const Segment> segments, const Reduction& reduction) {
    inputs_.resize(static_cast<std::size_t>(communicator_.size()));
    std::size_t begin = 0;
    for (const auto& segment : segments) {
      for (int place = 0; place < communicator_.size(); ++place)
        inputs_[static_cast<std::size_t>(place)] = rounds_.inline_buffer(place) + begin;
      sums_.reduce(inputs_, {&segment.output, 1}, segment.count, reduction);
      begin += segment.count * size_of(reduction.dtype);
    }
  }

  /// Few bytes, on some ranks in the inline buffer and on others in the arena: each rank reduces all of it
  /// for itself, but keeps the result aside until nobody reads the inputs any more, as outputs may be inputs.
  void allreduce_mixed(std::span<const Segment> segments, const Reduction& reduction) {
    const std::size_t each = size_of(reduction.dtype);
    alignas(64) std::array<std::byte, kInlineBytes> results;
    inputs_.resize(static_cast<std::size_t>(communicator_.size()));
    std::size_t begin = 0;
    for (std::size_t i = 0; i < segments.size(); ++i) {
      const std::size_t bytes = segments[i].count * each;
      for (int place = 0; place < communicator_.size(); ++place) {
        const Mailbox& box = rounds_.mailbox(place);
        inputs_[static_cast<std::size_t>(place)] = box.is_inline != 0
                                                       ? rounds_.inline_buffer(place) + begin
                                                       : access_.local(place, box.inputs[i], 0, bytes);
      }
      void* result = results.data() + begin;
      sums_.reduce(inputs_, {&result, 1}, segments[i].count, reduction);
      begin += bytes;
    }
    rounds_.phase();
    const std::byte* next = results.data();
    for (const auto& segment : segments) {
      if (segment.count > 0) std::memcpy(segment.output, next, segment.count * each);
      next += segment.count * each;
    }
  }

  // --- reducescatter ---

  /// Every rank reads its range of all inputs, and writes only its own output.
  void reducescatter_any(const Segment& whole, std::size_t begin, std::size_t end,
                         const Reduction& reduction) {
    const std::size_t each = size_of(reduction.dtype);
    const std::size_t bytes = whole.count * each;
    const auto detail =
        static_cast<std::uint64_t>(reduction.dtype) << 8 | static_cast<std::uint64_t>(reduction.op);
    rounds_.open(Call::reducescatter, bytes, detail).inputs[0] = access_.locate(whole.input);
    const bool small = bytes <= kInlineBytes;
    if (small && bytes > 0) std::memcpy(rounds_.inline_buffer(communicator_.place()), whole.input, bytes);
    rounds_.meet();
    inputs_.resize(static_cast<std::size_t>(communicator_.size()));
    if (small) {
      for (int place = 0; place < communicator_.size(); ++place)
        inputs_[static_cast<std::size_t>(place)] = rounds_.inline_buffer(place) + begin * each;
      return sums_.reduce(inputs_, {&whole.output, 1}, end - begin, reduction);
    }
    if (!access_.everything() && !all_in_arena(1, {&Mailbox::inputs}))
      return staged_sums_.reducescatter(whole, begin, end, reduction);
    const std::size_t step = kScratchBytes / each;
    for (std::size_t done = begin; done < end; done += step) {
      read_inputs(done * each, std::min(step, end - done) * each);
      void* output = static_cast<std::byte*>(whole.output) + (done - begin) * each;
      sums_.reduce(inputs_, {&output, 1}, std::min(step, end - done), reduction);
    }
    rounds_.phase();
  }

  /// Makes `inputs_` point to a range of all ranks' inputs: where they lie, or to copies of what is private.
  void read_inputs(std::size_t begin, std::size_t bytes) {
    scratch_.resize(inputs_.size() * kScratchBytes);
    for (int place = 0; place < communicator_.size(); ++place) {
      const auto who = static_cast<std::size_t>(place);
      const Location& location = rounds_.mailbox(place).inputs[0];
      inputs_[who] = access_.local(place, location, begin, bytes);
      if (inputs_[who] != nullptr) continue;
      std::byte* copy = scratch_.data() + who * kScratchBytes;
      access_.read(place, location, begin, copy, bytes);
      inputs_[who] = copy;
    }
  }

  Communicator communicator_;
  ShmWays ways_;
  std::optional<std::size_t> own_block_;  // taken for this collective, to be given back with it
  Rounds rounds_;
  RemoteAccess access_;
  Sums sums_;
  WriteAll write_all_;
  WriteByLevels write_by_levels_;
  FastestCopy fastest_copy_;
  StagedSums staged_sums_;
  Broadcast broadcast_;
  Transfers transfers_;
  Tuner private_way_;
  Tuner level_way_;
  std::vector<std::byte> scratch_;   // copies of private memory
  std::vector<const void*> inputs_;  // of the kernel call at hand, by place
};

}  // namespace

std::unique_ptr<Collective> make_shm_collective(std::shared_ptr<Arena> arena, int rank, int ranks,
                                                std::unique_ptr<PeerMemory> peers, const ShmWays& ways) {
  return std::make_unique<ShmCollective>(Communicator(std::move(arena), rank, ranks), std::move(peers),
                                         std::nullopt, ways);
}

std::vector<std::unique_ptr<Collective>> make_shm_group(int ranks, bool access, std::size_t region,
                                                        const ShmWays& ways) {
  const auto mapping =
      std::make_shared<const Mapping>(Arena::create_file(ranks, region), Arena::file_bytes(ranks, region));
  std::vector<std::unique_ptr<Collective>> group;
  group.reserve(static_cast<std::size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) {
    group.push_back(make_shm_collective(Arena::make(mapping, rank, ranks, region), rank, ranks,
                                        access ? make_thread_memory() : nullptr, ways));
  }
  return group;
}

}  // namespace hora::shm
