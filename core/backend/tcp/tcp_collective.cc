// SPDX-License-Identifier: Apache-2.0
#include "core/backend/tcp/tcp_collective.h"

#include "core/base/memory.h"

#include <algorithm>
#include <cstring>

namespace hora {
namespace {

constexpr std::size_t kPackBelow = 64 * 1024;
constexpr std::size_t kSmallBytes = 16 * 1024;
constexpr std::size_t kStepBytes = 4 * 1024 * 1024;

/// Adds the elements [begin, end) of all segments, seen as one tensor, to a parcel.
template <typename Pointer>
void add_range(Parcel& parcel, std::span<const Segment> segments, Pointer Segment::*which, std::size_t each,
               std::size_t begin, std::size_t end) {
  std::size_t first = 0;
  for (const auto& segment : segments) {
    const std::size_t from = std::max(begin, first);
    const std::size_t to = std::min(end, first + segment.count);
    if (from < to)
      parcel.add(static_cast<const std::byte*>(segment.*which) + (from - first) * each, (to - from) * each);
    first += segment.count;
  }
}

/// An allreduce goes in two exchanges: every rank gets its share of all inputs and reduces it in rank order,
/// with one rounding, then sends the result to all. That moves as few bytes per rank as a ring does, and
/// unlike a ring's its result has the same bits as that of every other backend. What is small goes in one:
/// all to all, and all reduce all.
class TcpCollective final : public Collective {
 public:
  explicit TcpCollective(std::unique_ptr<Mesh> mesh)
      : mesh_(std::move(mesh)),
        rank_(static_cast<std::size_t>(mesh_->rank())),
        ranks_(static_cast<std::size_t>(mesh_->ranks())) {}

  std::shared_ptr<std::byte> allocate(std::size_t bytes) override { return allocate_zeroed(bytes); }
  [[nodiscard]] std::size_t pack_below() const override { return kPackBelow; }
  [[nodiscard]] bool owns(const void* /*data*/) const override { return false; }

  void allreduce(std::span<const Segment> segments, const Reduction& reduction) override {
    const std::size_t each = size_of(reduction.dtype);
    std::size_t total = 0;
    for (const auto& segment : segments) total += segment.count;
    if (total * each <= kSmallBytes) return reduce_all(segments, total, reduction);
    const std::size_t step = kStepBytes / each;
    for (std::size_t begin = 0; begin < total; begin += step) {
      reduce_shares(segments, begin, std::min(begin + step, total), reduction);
    }
  }

  void broadcast(void* data, std::size_t bytes, int root) override {
    std::vector<Parcel> out(ranks_);
    std::vector<Parcel> in(ranks_);
    const auto source = static_cast<std::size_t>(root);
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
      if (rank_ == source) out[rank].add(data, bytes);
    }
    if (rank_ != source) in[source].add(data, bytes);
    mesh_->exchange(out, in);
  }

  void allgather(const void* input, void* output, std::span<const std::size_t> bytes) override {
    std::vector<Parcel> out(ranks_);
    std::vector<Parcel> in(ranks_);
    auto* next = static_cast<std::byte*>(output);
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
      out[rank].add(input, bytes[rank_]);
      in[rank].add(next, bytes[rank]);
      if (rank == rank_ && bytes[rank] > 0) std::memmove(next, input, bytes[rank]);
      next += bytes[rank];
    }
    mesh_->exchange(out, in);
  }

  void alltoall(const void* input, void* output, std::span<const std::size_t> bytes) override {
    std::vector<Parcel> out(ranks_);
    std::vector<Parcel> in(ranks_);
    const auto* from = static_cast<const std::byte*>(input);
    auto* to = static_cast<std::byte*>(output);
    const std::byte* own_input = nullptr;
    std::byte* own_output = nullptr;
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
      const std::size_t sent = bytes[rank_ * ranks_ + rank];
      const std::size_t received = bytes[rank * ranks_ + rank_];
      out[rank].add(from, sent);
      in[rank].add(to, received);
      if (rank == rank_) {
        own_input = from;
        own_output = to;
      }
      if (sent > 0) from += sent;
      if (received > 0) to += received;
    }
    const std::size_t kept = bytes[rank_ * ranks_ + rank_];
    if (kept > 0) std::memmove(own_output, own_input, kept);
    mesh_->exchange(out, in);
  }

  void reducescatter(const void* input, void* output, std::span<const std::size_t> counts,
                     const Reduction& reduction) override {
    const std::size_t each = size_of(reduction.dtype);
    const std::size_t own = counts[rank_];
    scratch_.resize(std::max(scratch_.size(), ranks_ * own * each));
    std::vector<Parcel> out(ranks_);
    std::vector<Parcel> in(ranks_);
    std::vector<const void*> inputs(ranks_);
    const auto* next = static_cast<const std::byte*>(input);
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
      out[rank].add(next, counts[rank] * each);
      in[rank].add(scratch_.data() + rank * own * each, own * each);
      inputs[rank] = rank == rank_ ? next : scratch_.data() + rank * own * each;
      if (counts[rank] > 0) next += counts[rank] * each;
    }
    mesh_->exchange(out, in);
    kernels::reduce(inputs, {&output, 1}, own, reduction);
  }

  std::unique_ptr<Collective> split(std::span<const int> members) override {
    ++splits_;  // on all ranks, so that the members give their mesh the same number
    const auto place = std::find(members.begin(), members.end(), mesh_->rank()) - members.begin();
    if (place == static_cast<std::ptrdiff_t>(members.size())) return nullptr;
    return std::make_unique<TcpCollective>(mesh_->split(static_cast<int>(place), members, splits_));
  }

  void barrier() override {
    std::vector<Parcel> nothing(ranks_);
    mesh_->exchange(nothing, nothing);
  }

  void abort(const Status& why) noexcept override { mesh_->abort(why); }

 private:
  void reduce_all(std::span<const Segment> segments, std::size_t total, const Reduction& reduction) {
    const std::size_t each = size_of(reduction.dtype);
    scratch_.resize(std::max(scratch_.size(), ranks_ * total * each));
    std::vector<Parcel> out(ranks_);
    std::vector<Parcel> in(ranks_);
    std::byte* own = scratch_.data() + rank_ * total * each;
    for (const auto& segment : segments) {
      if (segment.count > 0) std::memcpy(own, segment.input, segment.count * each);
      own += segment.count * each;
    }
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
      out[rank].add(scratch_.data() + rank_ * total * each, total * each);
      in[rank].add(scratch_.data() + rank * total * each, total * each);
    }
    mesh_->exchange(out, in);
    std::vector<const void*> inputs(ranks_);
    std::size_t begin = 0;
    for (const auto& segment : segments) {
      for (std::size_t rank = 0; rank < ranks_; ++rank)
        inputs[rank] = scratch_.data() + (rank * total + begin) * each;
      kernels::reduce(inputs, {&segment.output, 1}, segment.count, reduction);
      begin += segment.count;
    }
  }

  void reduce_shares(std::span<const Segment> segments, std::size_t begin, std::size_t end,
                     const Reduction& reduction) {
    const std::size_t each = size_of(reduction.dtype);
    const std::size_t share = (end - begin + ranks_ - 1) / ranks_;
    const auto share_of = [&](std::size_t rank) { return std::min(begin + rank * share, end); };
    const std::size_t own = share_of(rank_ + 1) - share_of(rank_);
    scratch_.resize(std::max(scratch_.size(), ranks_ * share * each));

    std::vector<Parcel> out(ranks_);
    std::vector<Parcel> in(ranks_);
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
      add_range(out[rank], segments, &Segment::input, each, share_of(rank), share_of(rank + 1));
      in[rank].add(scratch_.data() + rank * share * each, own * each);
    }
    mesh_->exchange(out, in);
    std::byte* place = scratch_.data() + rank_ * share * each;
    for (const auto& piece : out[rank_].pieces) {
      std::memcpy(place, piece.data(), piece.size());
      place += piece.size();
    }

    std::vector<const void*> inputs(ranks_);
    for (std::size_t rank = 0; rank < ranks_; ++rank) inputs[rank] = scratch_.data() + rank * share * each;
    void* result = scratch_.data() + rank_ * share * each;
    kernels::reduce(inputs, {&result, 1}, own, reduction);

    std::vector<Parcel> back_out(ranks_);
    std::vector<Parcel> back_in(ranks_);
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
      back_out[rank].add(result, own * each);
      add_range(back_in[rank], segments, &Segment::output, each, share_of(rank), share_of(rank + 1));
    }
    mesh_->exchange(back_out, back_in);
    const auto* from = static_cast<const std::byte*>(result);
    for (const auto& piece : back_in[rank_].pieces) {
      std::memcpy(piece.data(), from, piece.size());
      from += piece.size();
    }
  }

  std::unique_ptr<Mesh> mesh_;
  std::size_t rank_;
  std::size_t ranks_;
  std::vector<std::byte> scratch_;
  std::uint32_t splits_ = 0;
};

}  // namespace

std::unique_ptr<Collective> make_tcp_collective(std::unique_ptr<Mesh> mesh) {
  return std::make_unique<TcpCollective>(std::move(mesh));
}

}  // namespace hora
