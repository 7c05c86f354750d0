// SPDX-License-Identifier: Apache-2.0
#include "core/backend/tcp/data/allreduce_ring.h"

namespace hora::tcp {
namespace {

constexpr std::size_t kSegments = 4;              // of each chunk at a time
constexpr std::size_t kRingSegment = 256 * 1024;  // bytes of a sum

/// kSegments segments of each of p chunks.
class Lap {
 public:
  Lap(Mesh& mesh, Traffic& traffic, const SegmentView& view, const PartialSum& sum, std::byte* memory,
      std::size_t begin, std::size_t end)
      : traffic_(traffic),
        view_(view),
        sum_(sum),
        begin_(begin),
        ranks_(static_cast<std::size_t>(mesh.ranks())),
        rank_(static_cast<std::size_t>(mesh.rank())),
        after_(static_cast<int>((rank_ + 1) % ranks_)),
        before_(static_cast<int>((rank_ + ranks_ - 1) % ranks_)),
        count_(end - begin),
        buffer_bytes_(((part_begin(count_, 1, ranks_) + kSegments - 1) / kSegments) * sum.each()),
        buffers_(memory),
        own_(memory + 2 * kSegments * buffer_bytes_) {}

  [[nodiscard]] static std::size_t memory_for(std::size_t segment_bytes) {
    return (2 * kSegments + 1) * segment_bytes;
  }

  void run() {
    expect();
    for (std::size_t j = 0; j < kSegments; ++j) {
      const Range range = segment(rank_, j);
      view_.pack(range.begin, range.end);
      // Behind the buffer of hop 0 lies that of hop 1, whose first message comes only when this has gone.
      sum_.load(buffer(1, j), view_, range.begin, range.end);
      pass_on(0, j, range);
    }
    traffic_.run();
  }

 private:
  struct Range {
    std::size_t begin;
    std::size_t end;
  };

  [[nodiscard]] Range segment(std::size_t chunk, std::size_t j) const {
    const std::size_t from = part_begin(count_, chunk % ranks_, ranks_);
    const std::size_t length = part_begin(count_, chunk % ranks_ + 1, ranks_) - from;
    return {begin_ + from + part_begin(length, j, kSegments),
            begin_ + from + part_begin(length, j + 1, kSegments)};
  }

  /// The chunk that rank `rank` passes on in hop `s`; they go round the ring.
  [[nodiscard]] std::size_t chunk_of(int rank, std::size_t s) const {
    return static_cast<std::size_t>(rank) + 2 * ranks_ - s;
  }

  /// Where the sum of hop s is received, and passed on from in hop s+1.
  [[nodiscard]] std::byte* buffer(std::size_t s, std::size_t j) const {
    return buffers_ + (s % 2 * kSegments + j) * buffer_bytes_;
  }

  [[nodiscard]] bool is_sum(std::size_t s) const { return s + 1 < ranks_; }

  /// Queues all that may come.
  void expect() {
    while (expected_ < (2 * ranks_ - 2) * kSegments) {
      const std::size_t s = expected_ / kSegments;
      const std::size_t j = expected_ % kSegments;
      // The buffer's last sum: in hop 1 our own input, which went in hop 0; in hop s > 1 what was passed on
      // in s-1.
      const std::size_t must_have_gone = s == 0 ? 0 : (s - 1) * kSegments + j + 1;
      if (is_sum(s) && gone_ < must_have_gone) return;
      const Range range = segment(chunk_of(before_, s), j);
      if (is_sum(s)) {
        Pieces pieces;
        add_piece(pieces, buffer(s, j), (range.end - range.begin) * sum_.each());
        traffic_.receive(before_, Purpose::partial, std::move(pieces), [=, this] { add(s, j, range); });
      } else {
        traffic_.receive(before_, Purpose::result, view_.outputs(range.begin, range.end), [=, this] {
          view_.unpack(range.begin, range.end);
          pass_on(s + 1, j, range);
        });
      }
      ++expected_;
    }
  }

  /// Takes our input into what has come in hop s, and passes it on.
  void add(std::size_t s, std::size_t j, const Range& range) {
    view_.pack(range.begin, range.end);
    sum_.load(own_, view_, range.begin, range.end);
    sum_.add(buffer(s, j), buffer(s, j), own_, range.end - range.begin);
    if (!is_sum(s + 1)) {
      sum_.store(view_, range.begin, range.end, buffer(s, j));
      view_.unpack(range.begin, range.end);
    }
    pass_on(s + 1, j, range);
  }

  void pass_on(std::size_t s, std::size_t j, const Range& range) {
    if (s == 2 * ranks_ - 2) return;  // the rank after us was the first to have it
    const auto gone = [this] {
      ++gone_;
      expect();
    };
    if (is_sum(s)) {
      Pieces pieces;
      add_piece(pieces, buffer(s + 1, j), (range.end - range.begin) * sum_.each());
      traffic_.send(after_, Purpose::partial, std::move(pieces), gone);
    } else {
      traffic_.send(after_, Purpose::result, view_.outputs(range.begin, range.end), gone);
    }
  }

  Traffic& traffic_;
  const SegmentView& view_;
  const PartialSum& sum_;
  std::size_t begin_;
  std::size_t ranks_;
  std::size_t rank_;
  int after_;
  int before_;
  std::size_t count_;
  std::size_t buffer_bytes_;
  std::byte* buffers_;
  std::byte* own_;  // our input for one segment
  std::size_t expected_ = 0;
  std::size_t gone_ = 0;  // messages
};

}  // namespace

void allreduce_ring(Mesh& mesh, const SegmentView& view, const PartialSum& sum, Scratch& scratch) {
  const int ranks = mesh.ranks();
  std::vector<int> beside{(mesh.rank() + 1) % ranks};
  if (ranks > 2) beside.push_back((mesh.rank() + ranks - 1) % ranks);
  Traffic traffic(mesh, beside);
  const std::size_t segment = kRingSegment / sum.each();
  const std::size_t lap = segment * kSegments * static_cast<std::size_t>(ranks);
  std::byte* memory = scratch.at_least(Lap::memory_for(kRingSegment));
  for (std::size_t begin = 0; begin < view.count(); begin += lap) {
    Lap(mesh, traffic, view, sum, memory, begin, std::min(begin + lap, view.count())).run();
  }
}

}  // namespace hora::tcp
