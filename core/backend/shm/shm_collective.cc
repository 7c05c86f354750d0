// SPDX-License-Identifier: Apache-2.0
#include "core/backend/shm/shm_collective.h"

#include "core/backend/shm/doorbell.h"
#include "core/backend/shm/pieces.h"
#include "core/backend/shm/stage_copy.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <initializer_list>

namespace hora {
namespace {

enum class Call : std::uint8_t { allreduce = 1, broadcast, allgather, barrier };

constexpr std::size_t kPackBelow = 64 * 1024;
constexpr std::size_t kReachBytes = 512 * 1024;  // of private memory at a time, so that it stays in the cache

/// The bytes at an address as a number, for mailboxes.
std::uint64_t address_of(const void* data) { return reinterpret_cast<std::uint64_t>(data); }

/// What all ranks must mean by the same call.
std::uint64_t sign(Call call, std::uint64_t bytes, std::uint64_t detail) {
  return static_cast<std::uint64_t>(call) ^ (bytes << 16) ^ (detail << 8);
}

/// Every call goes: write into the own mailbox what this rank brings; a phase (all have); look, and move bytes; a second
/// phase (all are done with the buffers of the others). Three ways to move them, chosen alike on all ranks because all
/// see all mailboxes:
///
///  - slots: a few bytes are copied into the own slot before the first phase, and read by all after it. There is no
///    second phase, as slots and mailboxes alternate (seat.h).
///  - direct: every rank reads and writes the buffers of all, in the arena by loads and stores, private ones through
///    PeerMemory. An allreduce by "write-all": rank i reduces share i of all p inputs and stores it into all p outputs,
///    which reads every input once and writes every output once: as little as can be.
///  - staged: if somebody's buffer is private and out of reach, pieces of all travel through the stages.
///
/// Operands are taken in rank order, element by element, so the result's bits do not depend on the way.
class ShmCollective final : public Collective {
 public:
  ShmCollective(std::shared_ptr<Arena> arena, int rank, int ranks, std::unique_ptr<PeerMemory> peers)
      : arena_(std::move(arena)), rank_(rank), ranks_(ranks), peers_(std::move(peers)),
        bell_(arena_, rank, ranks, Doorbell::spin_for(ranks)) {}

  std::shared_ptr<std::byte> allocate(std::size_t bytes) override { return arena_->allocate(bytes); }
  [[nodiscard]] std::size_t pack_below() const override { return kPackBelow; }
  [[nodiscard]] bool owns(const void* data) const override { return arena_->contains(data); }

  void allreduce(std::span<const Segment> segments, const Reduction& reduction) override {
    while (segments.size() > kPlaces) {
      allreduce_some(segments.first(kPlaces), reduction);
      segments = segments.subspan(kPlaces);
    }
    allreduce_some(segments, reduction);
  }

  void broadcast(void* data, std::size_t bytes, int root) override {
    open(sign(Call::broadcast, bytes, static_cast<std::uint64_t>(root)));
    mailbox(rank_).inputs[0] = place(data);
    const bool small = bytes <= kSlotBytes;
    if (small && rank_ == root) std::memcpy(slot(rank_), data, bytes);
    meet();
    if (small) {
      if (rank_ != root) std::memcpy(data, slot(root), bytes);
      return;
    }
    if (direct(1, {&Mailbox::inputs})) {
      if (rank_ != root) read(root, mailbox(root).inputs[0], 0, data, bytes);
      return phase();
    }
    auto* next = static_cast<std::byte*>(data);
    for (std::size_t done = 0; done < bytes; done += kStageBytes) {
      const std::size_t length = std::min(kStageBytes, bytes - done);
      if (rank_ == root) stage_copy_.copy(stage(rank_), next + done, length);
      phase();
      if (rank_ != root) std::memcpy(next + done, stage(root), length);
      phase();
    }
  }

  void allgather(const void* input, void* output, std::span<const std::size_t> bytes) override {
    std::size_t total = 0;
    std::size_t most = 0;
    for (const std::size_t length : bytes) {
      total += length;
      most = std::max(most, length);
    }
    const std::size_t own = bytes[static_cast<std::size_t>(rank_)];
    open(sign(Call::allgather, total, most));
    mailbox(rank_).inputs[0] = place(input);
    const bool small = most <= kSlotBytes;
    if (small && own > 0) std::memcpy(slot(rank_), input, own);
    meet();
    auto* next = static_cast<std::byte*>(output);
    const bool reachable = direct(1, {&Mailbox::inputs});
    if (small || reachable) {
      for (int rank = 0; rank < ranks_; ++rank) {
        const std::size_t length = bytes[static_cast<std::size_t>(rank)];
        if (small && length > 0) std::memcpy(next, slot(rank), length);
        if (!small) read(rank, mailbox(rank).inputs[0], 0, next, length);
        next += length;
      }
      return small ? void() : phase();
    }
    allgather_staged(input, next, bytes, most);
  }

  void barrier() override {
    open(sign(Call::barrier, 0, 0));
    meet();
  }

  void abort(const Status& why) noexcept override { bell_.abort(why); }

 private:
  // --- the frame of a call ---

  /// Begins a call: this rank's mailbox is its own until `meet`.
  void open(std::uint64_t signature) {
    bell_.throw_if_aborted();
    ++sequence_;
    mailbox(rank_).sequence = sequence_;
    mailbox(rank_).signature = signature;
  }

  /// All have opened the same call; their mailboxes can be read.
  void meet() {
    phase();
    for (int rank = 0; rank < ranks_; ++rank) {
      const Mailbox& other = mailbox(rank);
      if (other.sequence == sequence_ && other.signature == mailbox(rank_).signature) continue;
      throw Error(Code::internal, fmt::format("ranks {} and {} make different calls: {:x} and {:x} as number {} and {}",
                                              rank_, rank, mailbox(rank_).signature, other.signature, sequence_,
                                              other.sequence));
    }
  }

  void phase() {
    bell_.arrive();
    bell_.await_all();
  }

  [[nodiscard]] Mailbox& mailbox(int rank) const { return arena_->seat(rank).mailboxes[sequence_ % 2]; }
  [[nodiscard]] std::byte* slot(int rank) const { return arena_->seat(rank).slots[sequence_ % 2].data(); }
  [[nodiscard]] std::byte* stage(int rank) const { return arena_->seat(rank).stage.data(); }

  // --- places ---

  [[nodiscard]] Place place(const void* data) const {
    if (arena_->contains(data)) return {static_cast<std::uint64_t>(static_cast<const std::byte*>(data) - arena_->base()), 1};
    return {address_of(data), 0};
  }

  /// Whether every rank can reach the buffers of all that stand first in these lists of the mailboxes.
  [[nodiscard]] bool direct(std::size_t count, std::initializer_list<std::array<Place, kPlaces> Mailbox::*> lists) const {
    if (peers_) return true;
    for (int rank = 0; rank < ranks_; ++rank) {
      for (const auto list : lists) {
        const auto& places = mailbox(rank).*list;
        const bool reachable = std::all_of(places.begin(), places.begin() + static_cast<std::ptrdiff_t>(count),
                                           [](const Place& place) { return place.in_arena != 0; });
        if (!reachable) return false;
      }
    }
    return true;
  }

  /// The memory itself, if this process can address it; another process wrote the place, so it is checked.
  [[nodiscard]] std::byte* local(int rank, const Place& place, std::size_t begin, std::size_t bytes) const {
    if (place.in_arena != 0) {
      if (place.where > arena_->size() || begin + bytes > arena_->size() - place.where) {
        throw Error(Code::internal, fmt::format("rank {} names a place outside of the arena", rank));
      }
      return arena_->base() + place.where + begin;
    }
    return rank == rank_ ? reinterpret_cast<std::byte*>(place.where) + begin : nullptr;
  }

  void read(int rank, const Place& place, std::size_t begin, void* to, std::size_t bytes) {
    if (bytes == 0) return;
    if (const auto* from = local(rank, place, begin, bytes)) {
      if (from != to) std::memcpy(to, from, bytes);
    } else {
      peers_->read(rank, to, place.where + begin, bytes);
    }
  }

  // --- allreduce ---

  void allreduce_some(std::span<const Segment> segments, const Reduction& reduction) {
    const std::size_t total = total_count(segments);
    const std::size_t each = size_of(reduction.dtype);
    open(sign(Call::allreduce, total * each, static_cast<std::uint64_t>(reduction.dtype)));
    if (total * each <= kSlotBytes) return allreduce_in_slots(segments, reduction);
    for (std::size_t i = 0; i < segments.size(); ++i) {
      mailbox(rank_).inputs[i] = place(segments[i].input);
      mailbox(rank_).outputs[i] = place(segments[i].output);
    }
    meet();
    if (!direct(segments.size(), {&Mailbox::inputs, &Mailbox::outputs})) return allreduce_staged(segments, reduction);
    for_each_range(segments, share_begin(total, each, rank_, ranks_), share_begin(total, each, rank_ + 1, ranks_),
                   [&](const SegmentRange& range) { write_all(range, reduction); });
    phase();
  }

  void allreduce_in_slots(std::span<const Segment> segments, const Reduction& reduction) {
    const std::size_t each = size_of(reduction.dtype);
    std::byte* next = slot(rank_);
    for (const auto& segment : segments) {
      if (segment.count > 0) std::memcpy(next, segment.input, segment.count * each);
      next += segment.count * each;
    }
    meet();
    std::vector<const void*> inputs(static_cast<std::size_t>(ranks_));
    std::size_t begin = 0;
    for (const auto& segment : segments) {
      for (int rank = 0; rank < ranks_; ++rank) inputs[static_cast<std::size_t>(rank)] = slot(rank) + begin;
      kernels::reduce(inputs, {&segment.output, 1}, segment.count, reduction);
      begin += segment.count * each;
    }
  }

  /// Reduces one range of all ranks' inputs and stores it into all their outputs.
  void write_all(const SegmentRange& range, const Reduction& reduction) {
    const std::size_t each = size_of(reduction.dtype);
    std::vector<const void*> inputs(static_cast<std::size_t>(ranks_));
    std::vector<void*> outputs(static_cast<std::size_t>(ranks_));
    bool all_local = true;
    for (int rank = 0; rank < ranks_; ++rank) {
      const auto who = static_cast<std::size_t>(rank);
      const Mailbox& box = mailbox(rank);
      inputs[who] = local(rank, box.inputs[range.segment], range.begin * each, range.count * each);
      outputs[who] = local(rank, box.outputs[range.segment], range.begin * each, range.count * each);
      all_local = all_local && inputs[who] != nullptr && outputs[who] != nullptr;
    }
    if (all_local) return kernels::reduce(inputs, outputs, range.count, reduction);
    const std::size_t step = kReachBytes / each;
    for (std::size_t done = 0; done < range.count; done += step) {
      write_all_reaching({range.segment, range.begin + done, std::min(step, range.count - done)}, reduction);
    }
  }

  /// The same for a range that fits the scratch, where some buffers are private to other processes.
  void write_all_reaching(const SegmentRange& range, const Reduction& reduction) {
    const std::size_t each = size_of(reduction.dtype);
    const std::size_t bytes = range.count * each;
    scratch_.resize(static_cast<std::size_t>(ranks_ + 1) * kReachBytes);
    std::vector<const void*> inputs;
    std::vector<void*> outputs;
    std::vector<int> far;
    for (int rank = 0; rank < ranks_; ++rank) {
      const Mailbox& box = mailbox(rank);
      const void* input = local(rank, box.inputs[range.segment], range.begin * each, bytes);
      if (input == nullptr) {
        std::byte* copy = scratch_.data() + static_cast<std::size_t>(rank) * kReachBytes;
        peers_->read(rank, copy, box.inputs[range.segment].where + range.begin * each, bytes);
        input = copy;
      }
      inputs.push_back(input);
      if (auto* output = local(rank, box.outputs[range.segment], range.begin * each, bytes)) {
        outputs.push_back(output);
      } else {
        far.push_back(rank);
      }
    }
    std::byte* result = scratch_.data() + static_cast<std::size_t>(ranks_) * kReachBytes;
    if (!far.empty()) outputs.push_back(result);
    kernels::reduce(inputs, outputs, range.count, reduction);
    for (const int rank : far) {
      peers_->write(rank, mailbox(rank).outputs[range.segment].where + range.begin * each, result, bytes);
    }
  }

  /// A stage full at a time: copy in; all reduce their share of it into all stages; copy out. After its second phase
  /// nobody else touches this rank's stage, so one is enough.
  void allreduce_staged(std::span<const Segment> segments, const Reduction& reduction) {
    const std::size_t each = size_of(reduction.dtype);
    const std::size_t total = total_count(segments);
    const std::size_t step = kStageBytes / each;
    std::vector<const void*> inputs(static_cast<std::size_t>(ranks_));
    std::vector<void*> outputs(static_cast<std::size_t>(ranks_));
    for (std::size_t done = 0; done < total; done += step) {
      const std::size_t length = std::min(step, total - done);
      std::byte* next = stage(rank_);
      for_each_range(segments, done, done + length, [&](const SegmentRange& range) {
        const auto* from = static_cast<const std::byte*>(segments[range.segment].input) + range.begin * each;
        stage_copy_.copy(next, from, range.count * each);
        next += range.count * each;
      });
      phase();
      const std::size_t begin = share_begin(length, each, rank_, ranks_);
      const std::size_t end = share_begin(length, each, rank_ + 1, ranks_);
      for (int rank = 0; rank < ranks_; ++rank) {
        inputs[static_cast<std::size_t>(rank)] = outputs[static_cast<std::size_t>(rank)] = stage(rank) + begin * each;
      }
      kernels::reduce(inputs, outputs, end - begin, reduction);
      phase();
      const std::byte* from = stage(rank_);
      for_each_range(segments, done, done + length, [&](const SegmentRange& range) {
        auto* to = static_cast<std::byte*>(segments[range.segment].output) + range.begin * each;
        std::memcpy(to, from, range.count * each);
        from += range.count * each;
      });
    }
  }

  void allgather_staged(const void* input, std::byte* output, std::span<const std::size_t> bytes, std::size_t most) {
    for (std::size_t done = 0; done < most; done += kStageBytes) {
      const auto part = [&](int rank) {
        const std::size_t length = bytes[static_cast<std::size_t>(rank)];
        return std::min(kStageBytes, length - std::min(length, done));
      };
      if (part(rank_) > 0) stage_copy_.copy(stage(rank_), static_cast<const std::byte*>(input) + done, part(rank_));
      phase();
      std::byte* next = output;
      for (int rank = 0; rank < ranks_; ++rank) {
        if (part(rank) > 0) std::memcpy(next + done, stage(rank), part(rank));
        next += bytes[static_cast<std::size_t>(rank)];
      }
      phase();
    }
  }

  std::shared_ptr<Arena> arena_;
  int rank_;
  int ranks_;
  std::unique_ptr<PeerMemory> peers_;
  Doorbell bell_;
  std::uint64_t sequence_ = 0;
  StageCopy stage_copy_;
  std::vector<std::byte> scratch_;
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
  for (int rank = 0; rank < ranks; ++rank) {
    group.push_back(make_shm_collective(Arena::make(mapping, rank, ranks, region), rank, ranks,
                                        reach ? make_thread_memory() : nullptr));
  }
  return group;
}

}  // namespace hora
