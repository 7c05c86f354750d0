// SPDX-License-Identifier: Apache-2.0
#include "core/backend/shm/shm_collective.h"

#include "core/backend/shm/contest.h"
#include "core/backend/shm/intrusion.h"
#include "core/backend/shm/pieces.h"
#include "core/backend/shm/reach.h"
#include "core/backend/shm/rounds.h"
#include "core/backend/shm/stage_copy.h"
#include "core/backend/shm/write_all.h"

#include <algorithm>
#include <cstring>
#include <initializer_list>

namespace hora {
namespace {

constexpr std::size_t kPackBelow = 64 * 1024;
// Up to where slots are worth it: with one synchronisation instead of two, but a copy into lines that others
// have read. For buffers in the arena, for private ones, and up to a whole slot when synchronisations cost
// most.
constexpr std::size_t kOneShotBytes = 512;
constexpr std::size_t kPrivateOneShotBytes = 2048;

/// There are three ways to move bytes, chosen alike on all ranks because all see all mailboxes:
///
///  - slots: a few bytes are copied into the own slot before the ranks meet, and read by all after it. There
///  is no
///    second phase, as slots and mailboxes alternate (seat.h).
///  - direct: every rank reads and writes the buffers of all, in the arena by loads and stores, private ones
///  through
///    PeerMemory. Allreduce by write-all (write_all.h).
///  - staged: pieces of all travel through the stages. If somebody's buffer is private and out of reach; or
///  where that is
///    faster than PeerMemory, which rank 0 finds out for allreduce.
///
/// Operands are taken in rank order, element by element, so the result's bits do not depend on the way.
class ShmCollective final : public Collective {
 public:
  ShmCollective(std::shared_ptr<Arena> arena, int rank, int ranks, std::unique_ptr<PeerMemory> peers)
      : arena_(std::move(arena)),
        rank_(rank),
        ranks_(ranks),
        rounds_(arena_, rank, ranks),
        reach_(arena_, rank, ranks, std::move(peers)),
        write_all_(*arena_, rounds_, reach_, rank, ranks) {}

  std::shared_ptr<std::byte> allocate(std::size_t bytes) override { return arena_->allocate(bytes); }
  [[nodiscard]] std::size_t pack_below() const override { return kPackBelow; }
  [[nodiscard]] bool owns(const void* data) const override { return arena_->contains(data); }
  void abort(const Status& why) noexcept override { rounds_.abort(why); }

  void barrier() override {
    call([&] {
      rounds_.open(Call::barrier, 0, 0);
      rounds_.meet();
    });
  }

  void allreduce(std::span<const Segment> segments, const Reduction& reduction) override {
    call([&] {
      for (; segments.size() > kPlaces; segments = segments.subspan(kPlaces)) {
        allreduce_some(segments.first(kPlaces), reduction);
      }
      allreduce_some(segments, reduction);
    });
  }

  void broadcast(void* data, std::size_t bytes, int root) override {
    call([&] { broadcast_any(data, bytes, root); });
  }

  void allgather(const void* input, void* output, std::span<const std::size_t> bytes) override {
    call([&] { allgather_any(input, static_cast<std::byte*>(output), bytes); });
  }

 private:
  /// A call that fails is this rank's last one, and ends only when nobody reaches into its buffers any more.
  template <typename Body>
  void call(const Body& body) {
    try {
      body();
      throw_if_left(*arena_, ranks_);
    } catch (const Error& error) {
      const Status cause = rounds_.cause_of(error.status());
      leave(*arena_, rank_, ranks_);
      throw Error(cause);
    }
  }

  void broadcast_any(void* data, std::size_t bytes, int root) {
    rounds_.open(Call::broadcast, bytes, static_cast<std::uint64_t>(root)).inputs[0] = reach_.place(data);
    const bool small = bytes <= kSlotBytes;
    if (small && rank_ == root && bytes > 0) std::memcpy(rounds_.slot(rank_), data, bytes);
    rounds_.meet();
    if (small) {
      if (rank_ != root && bytes > 0) std::memcpy(data, rounds_.slot(root), bytes);
    } else if (reach_.everything() || all_in_arena(1, {&Mailbox::inputs})) {
      if (rank_ != root) reach_.read(root, rounds_.mailbox(root).inputs[0], 0, data, bytes);
      rounds_.phase();
    } else {
      broadcast_staged(static_cast<std::byte*>(data), bytes, root);
    }
  }

  void allgather_any(const void* input, std::byte* output, std::span<const std::size_t> bytes) {
    std::size_t total = 0;
    std::size_t most = 0;
    for (const std::size_t length : bytes) {
      total += length;
      most = std::max(most, length);
    }
    const std::size_t own = bytes[static_cast<std::size_t>(rank_)];
    rounds_.open(Call::allgather, total, most).inputs[0] = reach_.place(input);
    const bool small = most <= kSlotBytes;
    if (small && own > 0) std::memcpy(rounds_.slot(rank_), input, own);
    rounds_.meet();
    if (!small && !reach_.everything() && !all_in_arena(1, {&Mailbox::inputs})) {
      return allgather_staged(input, output, bytes, most);
    }
    std::byte* next = output;
    for (int rank = 0; rank < ranks_; ++rank) {
      const std::size_t length = bytes[static_cast<std::size_t>(rank)];
      if (small && length > 0) std::memcpy(next, rounds_.slot(rank), length);
      if (!small) reach_.read(rank, rounds_.mailbox(rank).inputs[0], 0, next, length);
      next += length;
    }
    if (!small) rounds_.phase();
  }

  /// Whether the buffers of all ranks that stand first in these lists of the mailboxes lie in the arena.
  [[nodiscard]] bool all_in_arena(std::size_t count,
                                  std::initializer_list<std::array<Place, kPlaces> Mailbox::*> lists) const {
    for (int rank = 0; rank < ranks_; ++rank) {
      for (const auto list : lists) {
        const auto& places = rounds_.mailbox(rank).*list;
        const bool all = std::all_of(places.begin(), places.begin() + static_cast<std::ptrdiff_t>(count),
                                     [](const Place& place) { return place.in_arena != 0; });
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
      own.inputs[i] = reach_.place(segments[i].input);
      own.outputs[i] = reach_.place(segments[i].output);
      in_arena = in_arena && own.inputs[i].in_arena != 0 && own.outputs[i].in_arena != 0;
    }
    own.direct = private_way_.way(bytes);
    own.in_slot = bytes <= most_in_slot(in_arena) ? 1 : 0;
    if (own.in_slot != 0) gather(rounds_.slot(rank_), segments, size_of(reduction.dtype));
    rounds_.meet();
    int in_slot = 0;
    for (int rank = 0; rank < ranks_; ++rank) in_slot += rounds_.mailbox(rank).in_slot != 0 ? 1 : 0;
    if (in_slot == ranks_) return allreduce_in_slots(segments, reduction);
    if (in_slot > 0) return allreduce_mixed(segments, reduction);
    if (all_in_arena(segments.size(), {&Mailbox::inputs, &Mailbox::outputs})) {
      write_all_.run(segments, reduction);
      return rounds_.phase();
    }
    allreduce_private(segments, reduction, bytes);
  }

  void allreduce_private(std::span<const Segment> segments, const Reduction& reduction, std::size_t bytes) {
    if (!reach_.everything()) return allreduce_staged(segments, reduction);
    const auto start = Clock::now();
    const bool direct = rounds_.mailbox(0).direct != 0;
    if (direct) {
      write_all_.run(segments, reduction);
      rounds_.phase();
    } else {
      allreduce_staged(segments, reduction);
    }
    private_way_.note(direct ? 1 : 0, bytes, Clock::now() - start);
  }

  [[nodiscard]] std::size_t most_in_slot(bool in_arena) const {
    if (rounds_.crowded()) return kSlotBytes;
    return in_arena ? kOneShotBytes : kPrivateOneShotBytes;
  }

  /// One segment's input after the other.
  static void gather(std::byte* to, std::span<const Segment> segments, std::size_t each) {
    for (const auto& segment : segments) {
      if (segment.count > 0) std::memcpy(to, segment.input, segment.count * each);
      to += segment.count * each;
    }
  }

  void allreduce_in_slots(std::span<const Segment> segments, const Reduction& reduction) {
    inputs_.resize(static_cast<std::size_t>(ranks_));
    std::size_t begin = 0;
    for (const auto& segment : segments) {
      for (int rank = 0; rank < ranks_; ++rank)
        inputs_[static_cast<std::size_t>(rank)] = rounds_.slot(rank) + begin;
      kernels::reduce(inputs_, {&segment.output, 1}, segment.count, reduction);
      begin += segment.count * size_of(reduction.dtype);
    }
  }

  /// Few bytes, on some ranks in the slot and on others in the arena: each rank reduces all of it for itself,
  /// but keeps the result aside until nobody reads the inputs any more, as outputs may be inputs.
  void allreduce_mixed(std::span<const Segment> segments, const Reduction& reduction) {
    const std::size_t each = size_of(reduction.dtype);
    alignas(64) std::array<std::byte, kSlotBytes> results;
    inputs_.resize(static_cast<std::size_t>(ranks_));
    std::size_t begin = 0;
    for (std::size_t i = 0; i < segments.size(); ++i) {
      const std::size_t bytes = segments[i].count * each;
      for (int rank = 0; rank < ranks_; ++rank) {
        const Mailbox& box = rounds_.mailbox(rank);
        inputs_[static_cast<std::size_t>(rank)] =
            box.in_slot != 0 ? rounds_.slot(rank) + begin : reach_.local(rank, box.inputs[i], 0, bytes);
      }
      void* result = results.data() + begin;
      kernels::reduce(inputs_, {&result, 1}, segments[i].count, reduction);
      begin += bytes;
    }
    rounds_.phase();
    const std::byte* next = results.data();
    for (const auto& segment : segments) {
      if (segment.count > 0) std::memcpy(segment.output, next, segment.count * each);
      next += segment.count * each;
    }
  }

  /// A stage full at a time: copy in; all reduce their share of it into all stages; copy out. After its
  /// second phase nobody else touches this rank's stage, so one is enough.
  void allreduce_staged(std::span<const Segment> segments, const Reduction& reduction) {
    const std::size_t each = size_of(reduction.dtype);
    const std::size_t total = total_count(segments);
    const std::size_t step = kStageBytes / each;
    for (std::size_t done = 0; done < total; done += step) {
      const std::size_t length = std::min(step, total - done);
      std::byte* next = rounds_.stage(rank_);
      for_each_range(segments, done, done + length, [&](const SegmentRange& range) {
        const auto* from = static_cast<const std::byte*>(segments[range.segment].input) + range.begin * each;
        stage_copy_.copy(next, from, range.count * each);
        next += range.count * each;
      });
      rounds_.phase();
      reduce_stages(length, reduction);
      rounds_.phase();
      const std::byte* from = rounds_.stage(rank_);
      for_each_range(segments, done, done + length, [&](const SegmentRange& range) {
        auto* to = static_cast<std::byte*>(segments[range.segment].output) + range.begin * each;
        std::memcpy(to, from, range.count * each);
        from += range.count * each;
      });
    }
  }

  void reduce_stages(std::size_t length, const Reduction& reduction) {
    const std::size_t each = size_of(reduction.dtype);
    const std::size_t begin = share_begin(length, each, rank_, ranks_);
    const std::size_t end = share_begin(length, each, rank_ + 1, ranks_);
    inputs_.clear();
    outputs_.clear();
    for (int rank = 0; rank < ranks_; ++rank) {
      inputs_.push_back(rounds_.stage(rank) + begin * each);
      outputs_.push_back(rounds_.stage(rank) + begin * each);
    }
    kernels::reduce(inputs_, outputs_, end - begin, reduction);
  }

  // --- the others, where private memory is out of reach ---

  void broadcast_staged(std::byte* data, std::size_t bytes, int root) {
    for (std::size_t done = 0; done < bytes; done += kStageBytes) {
      const std::size_t length = std::min(kStageBytes, bytes - done);
      if (rank_ == root) stage_copy_.copy(rounds_.stage(rank_), data + done, length);
      rounds_.phase();
      if (rank_ != root) std::memcpy(data + done, rounds_.stage(root), length);
      rounds_.phase();
    }
  }

  void allgather_staged(const void* input, std::byte* output, std::span<const std::size_t> bytes,
                        std::size_t most) {
    for (std::size_t done = 0; done < most; done += kStageBytes) {
      const auto part = [&](int rank) {
        const std::size_t length = bytes[static_cast<std::size_t>(rank)];
        return std::min(kStageBytes, length - std::min(length, done));
      };
      const auto* from = static_cast<const std::byte*>(input) + done;
      if (part(rank_) > 0) stage_copy_.copy(rounds_.stage(rank_), from, part(rank_));
      rounds_.phase();
      std::byte* next = output;
      for (int rank = 0; rank < ranks_; ++rank) {
        if (part(rank) > 0) std::memcpy(next + done, rounds_.stage(rank), part(rank));
        next += bytes[static_cast<std::size_t>(rank)];
      }
      rounds_.phase();
    }
  }

  std::shared_ptr<Arena> arena_;
  int rank_;
  int ranks_;
  Rounds rounds_;
  Reach reach_;
  WriteAll write_all_;
  StageCopy stage_copy_;
  Contest private_way_{32 * 1024};
  std::vector<const void*> inputs_;  // of the kernel call at hand
  std::vector<void*> outputs_;
};

}  // namespace

std::unique_ptr<Collective> make_shm_collective(std::shared_ptr<Arena> arena, int rank, int ranks,
                                                std::unique_ptr<PeerMemory> peers) {
  return std::make_unique<ShmCollective>(std::move(arena), rank, ranks, std::move(peers));
}

std::vector<std::unique_ptr<Collective>> make_shm_group(int ranks, bool reach, std::size_t region) {
  const auto mapping =
      std::make_shared<const Mapping>(Arena::create_file(ranks, region), Arena::file_bytes(ranks, region));
  std::vector<std::unique_ptr<Collective>> group;
  group.reserve(static_cast<std::size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) {
    group.push_back(make_shm_collective(Arena::make(mapping, rank, ranks, region), rank, ranks,
                                        reach ? make_thread_memory() : nullptr));
  }
  return group;
}

}  // namespace hora
