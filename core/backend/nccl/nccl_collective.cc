// SPDX-License-Identifier: Apache-2.0
#include "core/backend/nccl/nccl_collective.h"

#include "core/backend/nccl/float32_sums.h"
#include "core/backend/nccl/reductions.h"
#include "core/backend/nccl/unregistered_copies.h"
#include "core/base/dtypes.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace hora::nccl {
namespace {

using Take = Communicator::Take;

// NCCL takes some microseconds for each piece of a group, and reaches its full rate with a few MiB; a GPU
// copies a MiB in less than a microsecond.
constexpr std::size_t kPackBelow = std::size_t{1} << 20;

bool all_equal(std::span<const std::size_t> numbers) {
  return std::all_of(numbers.begin(), numbers.end(),
                     [&](std::size_t number) { return number == numbers[0]; });
}

std::size_t total(std::span<const std::size_t> numbers) {
  return std::accumulate(numbers.begin(), numbers.end(), std::size_t{0});
}

class NcclCollective final : public Collective {
 public:
  NcclCollective(std::shared_ptr<LaneCommunicators> lane, std::shared_ptr<Communicator> communicator,
                 int rank, int ranks)
      : lane_(std::move(lane)),
        communicator_(std::move(communicator)),
        rank_(static_cast<std::size_t>(rank)),
        ranks_(static_cast<std::size_t>(ranks)) {}
  ~NcclCollective() override {
    if (communicator_) lane_->close(communicator_);
  }
  NcclCollective(const NcclCollective&) = delete;
  NcclCollective& operator=(const NcclCollective&) = delete;

  /// Not symmetric: it is called when a rank's engine needs it, in no order that other ranks keep to.
  std::shared_ptr<std::byte> allocate(std::size_t bytes) override {
    return lane_->context().memory->allocate(bytes, false);
  }
  [[nodiscard]] std::size_t pack_below() const override { return kPackBelow; }
  [[nodiscard]] bool owns(const void* data) const override {
    return lane_->context().memory->find(data) != nullptr;
  }

  void allreduce(std::span<const Segment> segments, const Reduction& reduction) override {
    lane_->begin();
    std::vector<Segment> filled;
    for (const auto& segment : segments) {
      if (segment.count > 0) filled.push_back(segment);
    }
    if (filled.empty()) return;
    const NcclReduction as = as_nccl_reduces(reduction, ranks());
    if (ranks_ == 1) return take_over(filled, reduction.dtype, as.before * as.after);
    UnregisteredCopies copies(*lane_, *communicator_);
    for (auto& segment : filled) prepare(segment, size_of(reduction.dtype), copies);
    if (sums_in_float32(reduction)) {
      Float32Sums(*lane_, *communicator_, rank(), ranks())
          .allreduce(filled, reduction.dtype, as.before * as.after);
      return copies.end();
    }
    const ncclRedOp_t op = op_of(as);
    communicator_->run_group("ncclAllReduce", [&](ncclComm_t native, const Take& take) {
      for (const auto& each : filled)
        take(nccl().all_reduce(each.input, each.output, each.count, as.type, op, native, stream()));
    });
    multiply(filled, reduction.dtype, as.after);
    copies.end();
  }

  void broadcast(void* data, std::size_t bytes, int root) override {
    lane_->begin();
    if (ranks_ == 1 || bytes == 0) return;
    UnregisteredCopies copies(*lane_, *communicator_);
    void* buffer = copies.both(data, bytes);
    communicator_->run("ncclBroadcast", [&](ncclComm_t native) {
      return nccl().broadcast(buffer, buffer, bytes, ncclUint8, root, native, stream());
    });
    copies.end();
  }

  void allgather(const void* input, void* output, std::span<const std::size_t> bytes) override {
    lane_->begin();
    if (total(bytes) == 0) return;
    if (ranks_ == 1) return lane_->stream().copy(output, input, bytes[0]);
    UnregisteredCopies copies(*lane_, *communicator_);
    const void* from = copies.read(input, bytes[rank_]);
    void* to = copies.written(output, total(bytes));
    if (all_equal(bytes)) {
      communicator_->run("ncclAllGather", [&](ncclComm_t native) {
        return nccl().all_gather(from, to, bytes[0], ncclUint8, native, stream());
      });
    } else {
      gather_parts(from, static_cast<std::byte*>(to), bytes);
    }
    copies.end();
  }

  void alltoall(const void* input, void* output, std::span<const std::size_t> bytes) override {
    lane_->begin();
    if (ranks_ > 1) exchange_all(input, output, bytes);
    const auto* kept = static_cast<const std::byte*>(input);
    auto* block = static_cast<std::byte*>(output);
    for (std::size_t rank = 0; rank < rank_; ++rank) {
      kept += bytes[rank_ * ranks_ + rank];
      block += bytes[rank * ranks_ + rank_];
    }
    const std::size_t own = bytes[rank_ * ranks_ + rank_];
    if (own > 0) lane_->stream().copy(block, kept, own);
  }

  void reducescatter(const void* input, void* output, std::span<const std::size_t> counts,
                     const Reduction& reduction) override {
    lane_->begin();
    if (total(counts) == 0) return;
    const NcclReduction as = as_nccl_reduces(reduction, ranks());
    const Segment own{input, output, counts[rank_]};
    if (ranks_ == 1) return take_over({&own, 1}, reduction.dtype, as.before * as.after);
    const std::size_t each = size_of(reduction.dtype);
    UnregisteredCopies copies(*lane_, *communicator_);
    const void* from = copies.read(input, total(counts) * each);
    void* to = copies.written(output, own.count * each);
    if (sums_in_float32(reduction)) {
      Float32Sums(*lane_, *communicator_, rank(), ranks())
          .reducescatter(from, to, counts, reduction.dtype, as.before * as.after);
    } else {
      reduce_apart(from, to, counts, as, each);
    }
    copies.end();
    if (!sums_in_float32(reduction) && own.count > 0) multiply({&own, 1}, reduction.dtype, as.after);
  }

  void barrier() override {
    lane_->begin();
    if (ranks_ == 1) return;
    void* word = lane_->word();
    communicator_->run("ncclAllReduce", [&](ncclComm_t native) {
      return nccl().all_reduce(word, word, 1, ncclInt32, ncclMax, native, stream());
    });
  }

  std::unique_ptr<Collective> split(std::span<const int> members) override {
    lane_->begin();
    const auto place = std::find(members.begin(), members.end(), rank()) - members.begin();
    const bool member = place < static_cast<std::ptrdiff_t>(members.size());
    const auto there = static_cast<int>(members.size());
    if (there <= 1) return member ? make_nccl_collective(lane_, nullptr, 0, 1) : nullptr;
    auto made = lane_->split(*communicator_, member ? static_cast<int>(place) : -1, there);
    return member ? make_nccl_collective(lane_, std::move(made), static_cast<int>(place), there) : nullptr;
  }

  void abort(const Status& why) noexcept override { lane_->context().stop_flag->set(why); }

 private:
  [[nodiscard]] const NcclFunctions& nccl() const { return lane_->nccl(); }
  [[nodiscard]] cudaStream_t stream() const { return lane_->native_stream(); }
  [[nodiscard]] int rank() const { return static_cast<int>(rank_); }
  [[nodiscard]] int ranks() const { return static_cast<int>(ranks_); }

  [[nodiscard]] bool sums_in_float32(const Reduction& reduction) const {
    return lane_->context().options.float32_sums && is_half(reduction.dtype) && reduction.op == ReduceOp::sum;
  }

  /// NCCL is told only of memory that all ranks tell it of.
  void prepare(Segment& segment, std::size_t each, UnregisteredCopies& copies) {
    const std::size_t bytes = segment.count * each;
    if (segment.symmetric_address != 0) {
      communicator_->meet(segment.input);
      communicator_->meet(segment.output);
    } else if (segment.input == segment.output) {
      segment.input = segment.output = copies.both(segment.output, bytes);
    } else {
      segment.input = copies.read(segment.input, bytes);
      segment.output = copies.written(segment.output, bytes);
    }
  }

  ncclRedOp_t op_of(const NcclReduction& as) {
    return as.before == 1.0 ? as.op : communicator_->multiplied_sum(as.type, as.before);
  }

  /// The result of a reduction by one rank alone is its input, multiplied.
  void take_over(std::span<const Segment> segments, DType dtype, double factor) {
    std::vector<Move> moves;
    for (const auto& each : segments) {
      if (factor != 1.0 || each.input != each.output) moves.push_back({each.output, each.input, each.count});
    }
    if (!moves.empty()) lane_->stream().move(moves, {dtype, dtype, factor});
  }

  void multiply(std::span<const Segment> segments, DType dtype, double factor) {
    if (factor == 1.0) return;
    std::vector<Move> moves;
    for (const auto& each : segments) moves.push_back({each.output, each.output, each.count});
    lane_->stream().move(moves, {dtype, dtype, factor});
  }

  /// Each rank's part is broadcast. NCCL carries a group of broadcasts out together, each along a ring that
  /// enters a host once; sends from each rank to each other would enter it once for each of its ranks.
  void gather_parts(const void* input, std::byte* output, std::span<const std::size_t> bytes) {
    communicator_->run_group("ncclBroadcast", [&](ncclComm_t native, const Take& take) {
      std::byte* to = output;
      for (std::size_t root = 0; root < ranks_; ++root) {
        const void* from = root == rank_ ? input : to;
        if (bytes[root] > 0) {
          take(nccl().broadcast(from, to, bytes[root], ncclUint8, static_cast<int>(root), native, stream()));
        }
        to += bytes[root];
      }
    });
  }

  void reduce_apart(const void* input, void* output, std::span<const std::size_t> counts,
                    const NcclReduction& as, std::size_t each) {
    const ncclRedOp_t op = op_of(as);
    if (!all_equal(counts))
      return reduce_parts(static_cast<const std::byte*>(input), output, counts, each, as.type, op);
    communicator_->run("ncclReduceScatter", [&](ncclComm_t native) {
      return nccl().reduce_scatter(input, output, counts[0], as.type, op, native, stream());
    });
  }

  /// Each rank's part is reduced to it, for the same reason.
  void reduce_parts(const std::byte* input, void* output, std::span<const std::size_t> counts,
                    std::size_t each, ncclDataType_t type, ncclRedOp_t op) {
    communicator_->run_group("ncclReduce", [&](ncclComm_t native, const Take& take) {
      const std::byte* from = input;
      for (std::size_t root = 0; root < ranks_; ++root) {
        void* to = root == rank_ ? output : nullptr;
        if (counts[root] > 0)
          take(nccl().reduce(from, to, counts[root], type, op, static_cast<int>(root), native, stream()));
        from += counts[root] * each;
      }
    });
  }

  void exchange_all(const void* input, void* output, std::span<const std::size_t> bytes) {
    std::size_t sent = 0;
    std::size_t received = 0;
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
      sent += bytes[rank_ * ranks_ + rank];
      received += bytes[rank * ranks_ + rank_];
    }
    UnregisteredCopies copies(*lane_, *communicator_);
    const auto* from = static_cast<const std::byte*>(copies.read(input, sent));
    auto* to = static_cast<std::byte*>(copies.written(output, received));
    communicator_->run_group(
        "ncclSend", [&](ncclComm_t native, const Take& take) { exchange(from, to, bytes, native, take); });
    copies.end();
  }

  void exchange(const std::byte* input, std::byte* output, std::span<const std::size_t> bytes,
                ncclComm_t native, const Take& take) {
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
      const std::size_t sent = bytes[rank_ * ranks_ + rank];
      const std::size_t received = bytes[rank * ranks_ + rank_];
      const auto peer = static_cast<int>(rank);
      if (rank != rank_ && sent > 0) take(nccl().send(input, sent, ncclUint8, peer, native, stream()));
      if (rank != rank_ && received > 0)
        take(nccl().recv(output, received, ncclUint8, peer, native, stream()));
      input += sent;
      output += received;
    }
  }

  std::shared_ptr<LaneCommunicators> lane_;
  std::shared_ptr<Communicator> communicator_;
  std::size_t rank_;
  std::size_t ranks_;
};

}  // namespace

std::unique_ptr<Collective> make_nccl_collective(std::shared_ptr<LaneCommunicators> lane,
                                                 std::shared_ptr<Communicator> communicator, int rank,
                                                 int ranks) {
  return std::make_unique<NcclCollective>(std::move(lane), std::move(communicator), rank, ranks);
}

}  // namespace hora::nccl
