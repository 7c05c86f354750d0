// SPDX-License-Identifier: Apache-2.0
#include "core/backend/tcp/data/allreduce_shares.h"

namespace hora::tcp {
namespace {

// Of one peer. With one socket to it two segments of 256 KiB are on their way: long enough that system calls
// are cheap, few enough that all of a few peers stay in the second-level cache. With several sockets each has
// one, and shares that are short are cut for all of them.
constexpr std::size_t kLeastAhead = 2;
constexpr std::size_t kMostOfShare = 256 * 1024;
constexpr std::size_t kLeastOfShare = 32 * 1024;
constexpr std::size_t kReceiveBuffers = std::size_t{4} << 20;  // all together

std::vector<int> all_but(int rank, int ranks) {
  std::vector<int> others;
  for (int other = 0; other < ranks; ++other) {
    if (other != rank) others.push_back(other);
  }
  return others;
}

/// Reduces the elements [begin, end) of which rank r's lie at from(r), and our own where they are.
template <typename From>
void reduce_range(const SegmentView& view, std::size_t begin, std::size_t end, int own, std::size_t ranks,
                  const From& from, const Reduction& reduction) {
  std::vector<const void*> inputs(ranks);
  view.visit(begin, end,
             [&](const std::byte* input, std::byte* output, std::size_t offset, std::size_t count) {
               for (std::size_t rank = 0; rank < ranks; ++rank) {
                 inputs[rank] = static_cast<int>(rank) == own ? input : from(rank) + offset * view.each();
               }
               void* to = output;
               kernels::reduce(inputs, {&to, 1}, count, reduction);
             });
}

/// One call of allreduce_shares or reducescatter_shares.
class Shares {
 public:
  /// `returns`: whether results go back to all.
  Shares(Mesh& mesh, const SegmentView& view, std::vector<std::size_t> bounds, const Reduction& reduction,
         bool returns, Scratch& scratch)
      : view_(view),
        bounds_(std::move(bounds)),
        reduction_(reduction),
        returns_(returns),
        own_(mesh.rank()),
        others_(all_but(own_, mesh.ranks())),
        traffic_(mesh, others_),
        ahead_(std::max(kLeastAhead, mesh.lines(others_.front()).size())) {
    std::size_t longest = 0;
    for (std::size_t rank = 0; rank + 1 < bounds_.size(); ++rank)
      longest = std::max(longest, bounds_[rank + 1] - bounds_[rank]);
    segment_ = segment_bytes(longest * view.each(), mesh.lines(others_.front()).size()) / view.each();
    steps_ = (longest + segment_ - 1) / segment_ + ahead_;
    buffers_ = scratch.at_least(others_.size() * ahead_ * segment_ * view.each());
    arrived_.resize(segments_of(own_));
  }

  void run() {
    issue();
    traffic_.run();
  }

 private:
  struct Range {
    std::size_t begin;
    std::size_t end;
  };

  /// For shares that are at most so long, and so many sockets to each peer.
  [[nodiscard]] std::size_t segment_bytes(std::size_t share, std::size_t sockets) const {
    const std::size_t most =
        std::clamp(kReceiveBuffers / ahead_ / others_.size(), kLeastOfShare, kMostOfShare);
    return sockets == 1 ? most : std::clamp(share / ahead_ / 2, std::min(kLeastOfShare, most), most);
  }

  [[nodiscard]] Range range(int rank, std::size_t segment) const {
    const std::size_t end = bounds_[static_cast<std::size_t>(rank) + 1];
    const std::size_t begin = std::min(end, bounds_[static_cast<std::size_t>(rank)] + segment * segment_);
    return {begin, std::min(end, begin + segment_)};
  }

  [[nodiscard]] std::size_t segments_of(int rank) const {
    const auto at = static_cast<std::size_t>(rank);
    return (bounds_[at + 1] - bounds_[at] + segment_ - 1) / segment_;
  }

  /// Where the input of a rank other than us for our segment is received.
  [[nodiscard]] std::byte* buffer(std::size_t rank, std::size_t segment) const {
    const std::size_t index = rank < static_cast<std::size_t>(own_) ? rank : rank - 1;
    return buffers_ + (index * ahead_ + segment % ahead_) * segment_ * view_.each();
  }

  /// Begins all steps that may begin. A share that is shorter than others has its last segments done early.
  void issue() {
    while (issued_ < steps_ && (issued_ < reduced_ + ahead_ || reduced_ == arrived_.size())) {
      const std::size_t step = issued_++;
      for (const int peer : others_) issue(step, peer);
    }
  }

  void issue(std::size_t step, int peer) {
    if (step < arrived_.size()) {
      const Range mine = range(own_, step);
      Pieces pieces;
      add_piece(pieces, buffer(static_cast<std::size_t>(peer), step), (mine.end - mine.begin) * view_.each());
      traffic_.receive(peer, Purpose::input, std::move(pieces), [this, step] { arrive(step); });
    }
    if (step < segments_of(peer)) {
      const Range theirs = range(peer, step);
      view_.pack(theirs.begin, theirs.end);
      traffic_.send(peer, Purpose::input, view_.inputs(theirs.begin, theirs.end));
    }
    if (!returns_ || step < ahead_) return;
    const std::size_t done = step - ahead_;
    if (done < arrived_.size()) {
      const Range mine = range(own_, done);
      traffic_.send(peer, Purpose::result, view_.outputs(mine.begin, mine.end));
    }
    if (done < segments_of(peer)) {
      const Range theirs = range(peer, done);
      traffic_.receive(peer, Purpose::result, view_.outputs(theirs.begin, theirs.end),
                       [this, theirs] { view_.unpack(theirs.begin, theirs.end); });
    }
  }

  /// A segment is complete only after those before it, as each peer's come in order.
  void arrive(std::size_t segment) {
    if (++arrived_[segment] < others_.size()) return;
    const Range mine = range(own_, segment);
    const auto from = [&](std::size_t rank) -> const std::byte* { return buffer(rank, segment); };
    view_.pack(mine.begin, mine.end);
    reduce_range(view_, mine.begin, mine.end, own_, others_.size() + 1, from, reduction_);
    view_.unpack(mine.begin, mine.end);
    ++reduced_;
    issue();
  }

  const SegmentView& view_;
  std::vector<std::size_t> bounds_;
  const Reduction& reduction_;
  bool returns_;
  int own_;
  std::vector<int> others_;
  Traffic traffic_;
  std::size_t ahead_;        // how many segments of a peer are on their way
  std::size_t segment_ = 0;  // elements
  std::size_t steps_ = 0;
  std::byte* buffers_ = nullptr;
  std::vector<std::size_t> arrived_;  // how many inputs of each of our segments
  std::size_t reduced_ = 0;           // segments
  std::size_t issued_ = 0;            // steps
};

}  // namespace

void allreduce_shares(Mesh& mesh, const SegmentView& view, const Reduction& reduction, Scratch& scratch) {
  const auto ranks = static_cast<std::size_t>(mesh.ranks());
  std::vector<std::size_t> bounds;
  for (std::size_t rank = 0; rank <= ranks; ++rank) bounds.push_back(part_begin(view.count(), rank, ranks));
  Shares(mesh, view, std::move(bounds), reduction, true, scratch).run();
}

void allreduce_at_once(Mesh& mesh, const SegmentView& view, const Reduction& reduction, Scratch& scratch) {
  const std::vector<int> others = all_but(mesh.rank(), mesh.ranks());
  Traffic traffic(mesh, others);
  std::byte* buffers = scratch.at_least(static_cast<std::size_t>(mesh.ranks()) * view.bytes());
  const auto buffer = [&](std::size_t rank) { return buffers + rank * view.bytes(); };
  view.pack(0, view.count());
  for (const int peer : others) {
    traffic.send(peer, Purpose::input, view.inputs(0, view.count()));
    Pieces pieces;
    add_piece(pieces, buffer(static_cast<std::size_t>(peer)), view.bytes());
    traffic.receive(peer, Purpose::input, std::move(pieces));
  }
  traffic.run();
  reduce_range(view, 0, view.count(), mesh.rank(), others.size() + 1, buffer, reduction);
  view.unpack(0, view.count());
}

void reducescatter_shares(Mesh& mesh, const void* input, void* output, std::span<const std::size_t> bounds,
                          const Reduction& reduction, Scratch& scratch) {
  const std::size_t each = size_of(reduction.dtype);
  // Outputs lie where inputs do, but for our own share.
  const auto own = static_cast<std::size_t>(mesh.rank());
  const auto* from = static_cast<const std::byte*>(input);
  const std::array<Segment, 3> segments{
      Segment{from, nullptr, bounds[own]},
      Segment{from + bounds[own] * each, output, bounds[own + 1] - bounds[own]},
      Segment{from + bounds[own + 1] * each, nullptr, bounds.back() - bounds[own + 1]}};
  const SegmentView view(segments, each);
  Shares(mesh, view, {bounds.begin(), bounds.end()}, reduction, false, scratch).run();
}

}  // namespace hora::tcp
