// SPDX-License-Identifier: Apache-2.0
#include "core/backend/tcp/data/allreduce_halving.h"

#include <array>
#include <bit>

namespace hora::tcp {
namespace {

constexpr std::size_t kDoublingUpTo = 32 * 1024;          // bytes of sums
constexpr std::size_t kMostSums = std::size_t{32} << 20;  // bytes at a time
constexpr std::size_t kSegment = 256 * 1024;              // bytes of sums

/// The role of a rank in the rounds, in which 2^k ranks take part. Ranks that are left over are paired with
/// their neighbour.
class Bracket {
 public:
  Bracket(int rank, int ranks)
      : rank_(rank), players_(std::bit_floor(static_cast<unsigned>(ranks))), pairs_(ranks - players()) {}

  [[nodiscard]] int players() const { return static_cast<int>(players_); }
  [[nodiscard]] bool is_paired() const { return rank_ < 2 * pairs_; }
  [[nodiscard]] bool plays() const { return !is_paired() || rank_ % 2 == 0; }
  [[nodiscard]] int neighbour() const { return rank_ ^ 1; }
  /// This rank as a player.
  [[nodiscard]] int player() const { return is_paired() ? rank_ / 2 : rank_ - pairs_; }
  /// The rank that a player is; of a player after the last: the number of ranks.
  [[nodiscard]] int rank_of(int player) const { return player < pairs_ ? 2 * player : player + pairs_; }
  /// All that this rank talks to.
  [[nodiscard]] std::vector<int> peers() const {
    std::vector<int> peers;
    if (is_paired()) peers.push_back(neighbour());
    for (int distance = 1; plays() && distance < players(); distance *= 2)
      peers.push_back(rank_of(player() ^ distance));
    return peers;
  }

 private:
  int rank_;
  unsigned players_;
  int pairs_;
};

/// The rounds over `count` elements of a whole, from `begin`. Player v is responsible for those from share(v)
/// to share(v + 1).
class Rounds {
 public:
  using Shares = std::vector<std::size_t>;

  Rounds(const Bracket& bracket, Traffic& traffic, const SegmentView& view, const PartialSum& sum,
         std::byte* memory, std::size_t begin, Shares shares)
      : bracket_(bracket),
        traffic_(traffic),
        view_(view),
        sum_(sum),
        begin_(begin),
        shares_(std::move(shares)),
        sums_(memory),
        theirs_(memory + count() * sum.each()) {}

  /// Two for each element: the own sum, and what comes.
  [[nodiscard]] static std::size_t memory_for(std::size_t count, const PartialSum& sum) {
    return 2 * count * sum.each();
  }

  /// Takes in the neighbour that does not play; false: we are that one, and have given.
  bool fold() {
    sum_.load(sums_, view_, begin_, begin_ + count());
    if (!bracket_.is_paired()) return true;
    if (bracket_.plays()) {
      take_in(bracket_.neighbour(), 0, count());
    } else {
      give(bracket_.neighbour(), 0, count());
    }
    traffic_.run();
    return bracket_.plays();
  }

  void double_up() {
    for (int distance = bracket_.players() / 2; distance > 0; distance /= 2) {
      const int peer = bracket_.rank_of(bracket_.player() ^ distance);
      Pieces pieces;
      add_piece(pieces, theirs_, count() * sum_.each());
      traffic_.receive(peer, Purpose::partial, std::move(pieces));
      give(peer, 0, count());
      traffic_.run();
      add(peer, 0, count());
    }
  }

  /// Leaves the complete sums of our share.
  void halve() {
    for (int distance = bracket_.players() / 2; distance > 0; distance /= 2) {
      const int peer = bracket_.player() ^ distance;
      const auto [mine, mine_end] = held(bracket_.player(), distance);
      const auto [theirs, theirs_end] = held(peer, distance);
      take_in(bracket_.rank_of(peer), mine, mine_end);
      give(bracket_.rank_of(peer), theirs, theirs_end);
      traffic_.run();
    }
  }

  void store(std::size_t from, std::size_t to) {
    sum_.store(view_, begin_ + from, begin_ + to, sums_ + from * sum_.each());
  }
  void store_own() {
    const auto [from, to] = held(bracket_.player(), 1);
    store(from, to);
  }
  void store_all() { store(0, count()); }

  /// The way back: everybody's results.
  void gather() {
    for (int distance = 1; distance < bracket_.players(); distance *= 2) {
      const int peer = bracket_.player() ^ distance;
      const auto [mine, mine_end] = held(bracket_.player(), distance);
      const auto [theirs, theirs_end] = held(peer, distance);
      send_result(bracket_.rank_of(peer), mine, mine_end);
      receive_result(bracket_.rank_of(peer), theirs, theirs_end);
      traffic_.run();
    }
  }

  /// The result goes to the neighbour that does not play.
  void unfold() {
    if (!bracket_.is_paired()) return;
    if (bracket_.plays()) {
      send_result(bracket_.neighbour(), 0, count());
    } else {
      receive_result(bracket_.neighbour(), 0, count());
    }
    traffic_.run();
  }

  void send_result(int peer, std::size_t from, std::size_t to) {
    traffic_.send(peer, Purpose::result, view_.outputs(begin_ + from, begin_ + to));
  }
  void receive_result(int peer, std::size_t from, std::size_t to) {
    traffic_.receive(peer, Purpose::result, view_.outputs(begin_ + from, begin_ + to));
  }

  [[nodiscard]] std::size_t count() const { return shares_.back(); }

 private:
  /// The elements that a player still holds after the round of this distance: the shares of all players that
  /// differ from it by less.
  [[nodiscard]] std::pair<std::size_t, std::size_t> held(int player, int distance) const {
    const auto first = static_cast<std::size_t>(player & -distance);
    return {shares_[first], shares_[first + static_cast<std::size_t>(distance)]};
  }

  /// A segment is added while the next one comes.
  void take_in(int peer, std::size_t from, std::size_t to) {
    const std::size_t step = kSegment / sum_.each();
    for (std::size_t at = from; at < to; at += step) {
      const std::size_t end = std::min(at + step, to);
      Pieces pieces;
      add_piece(pieces, theirs_ + at * sum_.each(), (end - at) * sum_.each());
      traffic_.receive(peer, Purpose::partial, std::move(pieces), [=, this] { add(peer, at, end); });
    }
  }

  void give(int peer, std::size_t from, std::size_t to) {
    const std::size_t step = kSegment / sum_.each();
    for (std::size_t at = from; at < to; at += step) {
      Pieces pieces;
      add_piece(pieces, sums_ + at * sum_.each(), (std::min(at + step, to) - at) * sum_.each());
      traffic_.send(peer, Purpose::partial, std::move(pieces));
    }
  }

  void add(int peer, std::size_t from, std::size_t to) {
    std::byte* own = sums_ + from * sum_.each();
    const std::byte* other = theirs_ + from * sum_.each();
    const bool we_are_lower = bracket_.rank_of(bracket_.player()) < peer;
    sum_.add(own, we_are_lower ? own : other, we_are_lower ? other : own, to - from);
  }

  const Bracket& bracket_;
  Traffic& traffic_;
  const SegmentView& view_;
  const PartialSum& sum_;
  std::size_t begin_;
  Shares shares_;
  std::byte* sums_;
  std::byte* theirs_;
};

/// `count` elements in as many equal parts as there are players.
Rounds::Shares equal_shares(std::size_t count, int players) {
  Rounds::Shares shares;
  const auto parts = static_cast<std::size_t>(players);
  for (std::size_t part = 0; part <= parts; ++part) shares.push_back(part_begin(count, part, parts));
  return shares;
}

void reduce(Rounds& rounds, bool doubles) {
  if (rounds.fold()) {
    if (doubles) {
      rounds.double_up();
      rounds.store_all();
    } else {
      rounds.halve();
      rounds.store_own();
      rounds.gather();
    }
  }
  rounds.unfold();
}

}  // namespace

void allreduce_halving(Mesh& mesh, const SegmentView& view, const PartialSum& sum, Scratch& scratch) {
  const Bracket bracket(mesh.rank(), mesh.ranks());
  Traffic traffic(mesh, bracket.peers());
  const bool doubles = view.count() * sum.each() <= kDoublingUpTo;
  const std::size_t most = kMostSums / sum.each();
  std::byte* memory = scratch.at_least(Rounds::memory_for(std::min(most, view.count()), sum));
  for (std::size_t begin = 0; begin < view.count(); begin += most) {
    const std::size_t count = std::min(most, view.count() - begin);
    Rounds rounds(bracket, traffic, view, sum, memory, begin, equal_shares(count, bracket.players()));
    view.pack(begin, begin + count);
    reduce(rounds, doubles);
    view.unpack(begin, begin + count);
  }
}

void reducescatter_halving(Mesh& mesh, const void* input, void* output, std::span<const std::size_t> bounds,
                           const Reduction& reduction, Scratch& scratch) {
  const Bracket bracket(mesh.rank(), mesh.ranks());
  const PartialSum sum(reduction);
  const std::size_t each = size_of(reduction.dtype);
  const auto bound = [&](int rank) { return bounds[static_cast<std::size_t>(rank)]; };
  Rounds::Shares shares;
  for (int player = 0; player <= bracket.players(); ++player)
    shares.push_back(bound(bracket.rank_of(player)));
  // A pair's player ends with the results of both, so it needs room for the neighbour's.
  const int own = mesh.rank();
  const int end = own + (bracket.is_paired() && bracket.plays() ? 2 : 1);
  const std::size_t spare_bytes = end - own == 2 ? (bound(own + 2) - bound(own + 1)) * each : 0;
  std::byte* memory = scratch.at_least(Rounds::memory_for(bounds.back(), sum) + spare_bytes);
  std::byte* spare = memory + Rounds::memory_for(bounds.back(), sum);
  const auto* from = static_cast<const std::byte*>(input);
  const std::array<Segment, 4> segments{
      Segment{from, nullptr, bound(own)},
      Segment{from + bound(own) * each, output, bound(own + 1) - bound(own)},
      Segment{from + bound(own + 1) * each, spare, bound(end) - bound(own + 1)},
      Segment{from + bound(end) * each, nullptr, bounds.back() - bound(end)}};
  const SegmentView view(segments, each);
  Traffic traffic(mesh, bracket.peers());
  Rounds rounds(bracket, traffic, view, sum, memory, 0, std::move(shares));
  if (rounds.fold()) {
    rounds.halve();
    rounds.store_own();
    if (bracket.is_paired()) rounds.send_result(bracket.neighbour(), bound(own + 1), bound(end));
  } else {
    rounds.receive_result(bracket.neighbour(), bound(own), bound(own + 1));
  }
  traffic.run();
}

}  // namespace hora::tcp
