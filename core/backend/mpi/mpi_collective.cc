// SPDX-License-Identifier: Apache-2.0
#include "core/backend/mpi/mpi_collective.h"

#include "core/backend/mpi/shares.h"
#include "core/base/memory.h"
#include "core/compose/pieces.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <optional>

namespace hora::mpi {
namespace {

constexpr std::size_t kPackBelow = 64 * 1024;
constexpr std::size_t kSmallBytes = 32 * 1024;       // of all ranks together
constexpr std::size_t kTreeBytes = 64 * 1024;        // a broadcast of less goes down a tree
constexpr std::size_t kStepBytes = 4 * 1024 * 1024;  // of a tensor at a time
constexpr std::size_t kLeastShareBytes = 64 * 1024;  // of a step, for each rank

/// [0, count) in steps.
std::vector<Share> steps_of(std::size_t count, std::size_t step) {
  std::vector<Share> steps;
  for (std::size_t begin = 0; begin < count; begin += step)
    steps.push_back({begin, std::min(begin + step, count)});
  return steps;
}

/// A step of a reduction: every rank gets its share of all inputs. Used again for later steps. The messages
/// go before the memory.
struct Step {
  Step(Channel& channel, std::vector<std::byte>& room) : inputs(room), scatter(channel), gather(channel) {}
  std::vector<std::byte>& inputs;  // of the others, in rank order, for this rank's share
  MpiTransfers scatter;
  MpiTransfers gather;
  Share whole;
};
using Steps = std::array<Step, 2>;

// The reasons for messages instead of MPI's own collectives. MPI_Allreduce knows no 16-bit floats. An MPI_Op
// of one's own for them can keep partial sums only in the 16 bits that its buffers have. Every level of its
// tree rounds, and its order depends on the library, the size and the number of ranks. Here every rank gets
// its share of all inputs, reduces it in rank order with one rounding, and sends the result to all. That
// moves as few bytes as a ring, and scales in the same pass. The result has the bits of every other plane
// that sums in rank order. Besides, messages can be given up after an abort, and lengths of more than INT_MAX
// need no second path. Fabrics do for MPI's messages all that they do for MPI.
//
// Small tensors: in log2(p) rounds every rank gets the whole inputs of all, and all reduce them (Bruck et
// al., "Efficient Algorithms for All-to-All Communications", 1997). Large ones go in steps, of which the
// scatter of the next overlaps the reduction and the gather of the last.
class MpiCollective final : public Collective {
 public:
  /// `members`: who its ranks are in the communicator.
  MpiCollective(std::shared_ptr<Channel> channel, std::size_t rank, std::vector<int> members)
      : channel_(std::move(channel)), rank_(rank), ranks_(members.size()), members_(std::move(members)) {}

  std::shared_ptr<std::byte> allocate(std::size_t bytes) override { return allocate_zeroed(bytes); }
  [[nodiscard]] std::size_t pack_below() const override { return kPackBelow; }
  [[nodiscard]] bool owns(const void* /*data*/) const override { return false; }

  void allreduce(std::span<const Segment> segments, const Reduction& reduction) override {
    channel_->check();
    const std::size_t each = size_of(reduction.dtype);
    const std::size_t total = total_count(segments);
    if (ranks_ == 1) return reduce_alone(segments, reduction);
    if (total * each * ranks_ <= kSmallBytes) return reduce_all(segments, reduction);
    const auto whole_steps = steps_of(total, step_bytes() / each);
    // Two steps are under way: the memory of one is free again when its results have been sent.
    Steps steps = two_steps();
    scatter(segments, whole_steps.front(), steps[0], each);
    for (std::size_t k = 0; k < whole_steps.size(); ++k) {
      Step& current = steps[k % 2];
      Step& other = steps[(k + 1) % 2];
      other.gather.wait();
      if (k + 1 < whole_steps.size()) scatter(segments, whole_steps[k + 1], other, each);
      current.scatter.wait();
      reduce_and_gather(segments, current, reduction);
    }
    steps[(whole_steps.size() + 1) % 2].gather.wait();
  }

  void broadcast(void* data, std::size_t bytes, int root) override {
    channel_->check();
    if (ranks_ == 1 || bytes == 0) return;
    if (bytes <= kTreeBytes || ranks_ == 2) return broadcast_down_a_tree(data, bytes, root);
    broadcast_by_shares(data, bytes, root);
  }

  void allgather(const void* input, void* output, std::span<const std::size_t> bytes) override {
    channel_->check();
    MpiTransfers messages(*channel_);
    auto* next = static_cast<std::byte*>(output);
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
      if (rank != rank_) messages.receive(members_[rank], next, bytes[rank]);
      if (rank == rank_ && bytes[rank] > 0) std::memmove(next, input, bytes[rank]);
      if (bytes[rank] > 0) next += bytes[rank];
    }
    for (const std::size_t rank : others()) messages.send(members_[rank], input, bytes[rank_]);
    messages.wait();
  }

  void alltoall(const void* input, void* output, std::span<const std::size_t> bytes) override {
    channel_->check();
    MpiTransfers messages(*channel_);
    std::vector<const std::byte*> outgoing(ranks_);
    const auto* from = static_cast<const std::byte*>(input);
    auto* to = static_cast<std::byte*>(output);
    std::byte* kept = nullptr;
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
      const std::size_t received = bytes[rank * ranks_ + rank_];
      const std::size_t sent = bytes[rank_ * ranks_ + rank];
      if (rank == rank_) kept = to;
      if (rank != rank_) messages.receive(members_[rank], to, received);
      outgoing[rank] = from;
      if (received > 0) to += received;
      if (sent > 0) from += sent;
    }
    for (const std::size_t rank : others())
      messages.send(members_[rank], outgoing[rank], bytes[rank_ * ranks_ + rank]);
    const std::size_t own = bytes[rank_ * ranks_ + rank_];
    if (own > 0) std::memmove(kept, outgoing[rank_], own);
    messages.wait();
  }

  void reducescatter(const void* input, void* output, std::span<const std::size_t> counts,
                     const Reduction& reduction) override {
    channel_->check();
    const std::size_t each = size_of(reduction.dtype);
    const std::size_t most = *std::max_element(counts.begin(), counts.end());
    std::vector<const std::byte*> parts(ranks_);
    const auto* next = static_cast<const std::byte*>(input);
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
      parts[rank] = next;
      if (counts[rank] > 0) next += counts[rank] * each;
    }
    // Step k is the elements [begin, end) of every rank's part, as far as it has them.
    const auto ranges = steps_of(most, step_bytes() / each / ranks_);
    Steps steps = two_steps();
    for (std::size_t k = 0; k < ranges.size(); ++k) {
      if (k == 0) scatter_parts(parts, counts, ranges[0], steps[0], each);
      if (k + 1 < ranges.size()) scatter_parts(parts, counts, ranges[k + 1], steps[(k + 1) % 2], each);
      Step& current = steps[k % 2];
      current.scatter.wait();
      const std::size_t begin = std::min(ranges[k].begin, counts[rank_]);
      const std::size_t count = std::min(ranges[k].end, counts[rank_]) - begin;
      if (count == 0) continue;
      void* result = static_cast<std::byte*>(output) + begin * each;
      const auto inputs = inputs_of(current, parts[rank_] + begin * each, 0, count * each);
      kernels::reduce(inputs, {&result, 1}, count, reduction);
    }
  }

  void barrier() override {
    channel_->check();
    MpiTransfers messages(*channel_);
    for (std::size_t distance = 1; distance < ranks_; distance *= 2) {
      messages.receive_signal(members_[(rank_ + distance) % ranks_]);
      messages.send_signal(members_[(rank_ + ranks_ - distance) % ranks_]);
      messages.wait();
    }
  }

  /// Over the same communicator: making another one waits for all its ranks, and MPI cannot be interrupted.
  std::unique_ptr<Collective> split(std::span<const int> members) override {
    channel_->check();
    const auto place = std::find(members.begin(), members.end(), static_cast<int>(rank_)) - members.begin();
    if (place == static_cast<std::ptrdiff_t>(members.size())) return nullptr;
    std::vector<int> theirs;
    for (const int member : members) theirs.push_back(members_[static_cast<std::size_t>(member)]);
    return std::make_unique<MpiCollective>(channel_, static_cast<std::size_t>(place), std::move(theirs));
  }

  [[nodiscard]] std::uint64_t progress() const noexcept override { return channel_->progress(); }
  void abort(const Status& why) noexcept override { channel_->abort(why); }

 private:
  /// All other ranks, beginning with the next one, so that not all send to the same one first.
  [[nodiscard]] std::vector<std::size_t> others() const {
    std::vector<std::size_t> ranks;
    for (std::size_t distance = 1; distance < ranks_; ++distance)
      ranks.push_back((rank_ + distance) % ranks_);
    return ranks;
  }

  /// A multiple of all element sizes and of the number of ranks.
  [[nodiscard]] std::size_t step_bytes() const {
    const std::size_t share = std::max(kStepBytes / ranks_ / 64 * 64, kLeastShareBytes);
    return share * ranks_;
  }

  [[nodiscard]] Steps two_steps() { return {Step(*channel_, rooms_[0]), Step(*channel_, rooms_[1])}; }

  static void reduce_alone(std::span<const Segment> segments, const Reduction& reduction) {
    for (const auto& segment : segments) {
      const void* input = segment.input;
      if (segment.count > 0) kernels::reduce({&input, 1}, {&segment.output, 1}, segment.count, reduction);
    }
  }

  void reduce_all(std::span<const Segment> segments, const Reduction& reduction) {
    const std::size_t each = size_of(reduction.dtype);
    const std::size_t bytes = total_count(segments) * each;
    std::vector<std::byte>& blocks = rooms_[0];  // of this rank, the next one, and so on
    blocks.resize(std::max(blocks.size(), ranks_ * bytes));
    std::size_t at = 0;
    for (const auto& segment : segments) {
      if (segment.count > 0) std::memcpy(blocks.data() + at, segment.input, segment.count * each);
      at += segment.count * each;
    }
    MpiTransfers messages(*channel_);
    for (std::size_t distance = 1; distance < ranks_; distance *= 2) {
      const std::size_t length = std::min(distance, ranks_ - distance) * bytes;
      messages.receive(members_[(rank_ + distance) % ranks_], blocks.data() + distance * bytes, length);
      messages.send(members_[(rank_ + ranks_ - distance) % ranks_], blocks.data(), length);
      messages.wait();
    }
    std::vector<const void*> inputs(ranks_);
    at = 0;
    for (const auto& segment : segments) {
      for (std::size_t rank = 0; rank < ranks_; ++rank)
        inputs[rank] = blocks.data() + (rank + ranks_ - rank_) % ranks_ * bytes + at;
      if (segment.count > 0) kernels::reduce(inputs, {&segment.output, 1}, segment.count, reduction);
      at += segment.count * each;
    }
  }

  /// Starts to send everybody its share of our inputs, and to receive ours of theirs.
  void scatter(std::span<const Segment> segments, Share whole, Step& step, std::size_t each) {
    step.whole = whole;
    const Share own = share_of(whole, rank_, ranks_);
    const auto own_parts = cut(segments, own, each);
    make_room(step, own.count() * each);
    std::byte* next = step.inputs.data();
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
      if (rank == rank_) continue;
      for (const auto& part : own_parts) {
        step.scatter.receive(members_[rank], next, part.count * each);
        next += part.count * each;
      }
    }
    for (const std::size_t rank : others()) {
      for (const auto& part : cut(segments, share_of(whole, rank, ranks_), each))
        step.scatter.send(members_[rank], part.input, part.count * each);
    }
  }

  void scatter_parts(const std::vector<const std::byte*>& parts, std::span<const std::size_t> counts,
                     Share whole, Step& step, std::size_t each) {
    const auto part_of = [&](std::size_t rank) {
      return Share{std::min(whole.begin, counts[rank]), std::min(whole.end, counts[rank])};
    };
    const std::size_t bytes = part_of(rank_).count() * each;
    make_room(step, bytes);
    std::byte* next = step.inputs.data();
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
      if (rank == rank_) continue;
      step.scatter.receive(members_[rank], next, bytes);
      next += bytes;
    }
    for (const std::size_t rank : others()) {
      const Share part = part_of(rank);
      if (part.count() > 0)
        step.scatter.send(members_[rank], parts[rank] + part.begin * each, part.count() * each);
    }
  }

  void make_room(Step& step, std::size_t bytes) const {
    step.inputs.resize(std::max(step.inputs.size(), (ranks_ - 1) * bytes));
  }

  /// Everybody's input for a piece of this rank's share, in rank order: ours, and `begin` (bytes) into each
  /// of the others', which lie `length` apart.
  [[nodiscard]] std::vector<const void*> inputs_of(const Step& step, const void* own, std::size_t begin,
                                                   std::size_t length) const {
    std::vector<const void*> inputs(ranks_, own);
    const std::byte* next = step.inputs.data() + begin;
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
      if (rank == rank_) continue;
      inputs[rank] = next;
      next += length;
    }
    return inputs;
  }

  /// Reduces this rank's share where its result belongs, starts to send that to all, and to receive theirs.
  void reduce_and_gather(std::span<const Segment> segments, Step& step, const Reduction& reduction) {
    const std::size_t each = size_of(reduction.dtype);
    const Share own = share_of(step.whole, rank_, ranks_);
    const auto own_parts = cut(segments, own, each);
    std::size_t begin = 0;
    for (const auto& part : own_parts) {
      const auto inputs = inputs_of(step, part.input, begin, own.count() * each);
      kernels::reduce(inputs, {&part.output, 1}, part.count, reduction);
      begin += part.count * each;
    }
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
      if (rank == rank_) continue;
      for (const auto& part : cut(segments, share_of(step.whole, rank, ranks_), each))
        step.gather.receive(members_[rank], part.output, part.count * each);
    }
    for (const std::size_t rank : others()) {
      for (const auto& part : own_parts) step.gather.send(members_[rank], part.output, part.count * each);
    }
  }

  /// A binomial tree: who has the data passes it on to the rank that is half the rest away.
  void broadcast_down_a_tree(void* data, std::size_t bytes, int root) {
    const std::size_t first = static_cast<std::size_t>(root);
    const std::size_t place = (rank_ + ranks_ - first) % ranks_;  // in the tree; the root's is 0
    const auto at = [&](std::size_t other) { return members_[(other + first) % ranks_]; };
    MpiTransfers messages(*channel_);
    std::size_t distance = 1;
    while (distance < ranks_ && (place & distance) == 0) distance *= 2;
    if (place != 0) {
      messages.receive(at(place - distance), data, bytes);
      messages.wait();
    }
    for (distance /= 2; distance > 0; distance /= 2) {
      if (place + distance < ranks_) messages.send(at(place + distance), data, bytes);
    }
    messages.wait();
  }

  /// In steps: the root sends every other rank a share, and these pass them on to each other. So nobody
  /// sends, or receives, more than the tensor once.
  void broadcast_by_shares(void* data, std::size_t bytes, int root) {
    const auto first = static_cast<std::size_t>(root);
    const std::size_t receivers = ranks_ - 1;
    const std::size_t index = (rank_ + ranks_ - first) % ranks_;  // 0: the root, else receiver index - 1
    auto* const bytes_at = static_cast<std::byte*>(data);
    const auto who = [&](std::size_t receiver) { return members_[(first + 1 + receiver) % ranks_]; };
    std::array<MpiTransfers, 2> own{MpiTransfers(*channel_), MpiTransfers(*channel_)};
    std::array<MpiTransfers, 2> passed_on{MpiTransfers(*channel_), MpiTransfers(*channel_)};
    const auto steps = steps_of(bytes, step_bytes());
    const auto start = [&](std::size_t k) {
      for (std::size_t receiver = 0; receiver < receivers; ++receiver) {
        const Share share = share_of(steps[k], receiver, receivers);
        if (index == 0) own[k % 2].send(who(receiver), bytes_at + share.begin, share.count());
        if (index == receiver + 1) own[k % 2].receive(members_[first], bytes_at + share.begin, share.count());
      }
    };
    start(0);
    for (std::size_t k = 0; k < steps.size(); ++k) {
      if (k + 1 < steps.size()) start(k + 1);
      own[k % 2].wait();
      passed_on[k % 2].wait();
      if (index == 0) continue;
      const Share mine = share_of(steps[k], index - 1, receivers);
      for (std::size_t receiver = 0; receiver < receivers; ++receiver) {
        if (receiver == index - 1) continue;
        const Share share = share_of(steps[k], receiver, receivers);
        passed_on[k % 2].receive(who(receiver), bytes_at + share.begin, share.count());
        passed_on[k % 2].send(who(receiver), bytes_at + mine.begin, mine.count());
      }
    }
    passed_on[0].wait();
    passed_on[1].wait();
  }

  std::shared_ptr<Channel> channel_;
  std::size_t rank_;
  std::size_t ranks_;
  std::vector<int> members_;
  std::array<std::vector<std::byte>, 2> rooms_;  // kept from call to call
};

}  // namespace

std::unique_ptr<Collective> make_mpi_collective(std::shared_ptr<Channel> channel) {
  std::vector<int> members(static_cast<std::size_t>(channel->ranks()));
  std::iota(members.begin(), members.end(), 0);
  const auto rank = static_cast<std::size_t>(channel->rank());
  return std::make_unique<MpiCollective>(std::move(channel), rank, std::move(members));
}

}  // namespace hora::mpi
