// SPDX-License-Identifier: Apache-2.0
#include "core/backend/nccl/float32_sums.h"

#include <algorithm>
#include <vector>

namespace hora::nccl {
namespace {

constexpr std::size_t kEach = 2;   // bytes of an element
constexpr std::size_t kAlign = 8;  // elements: 16 bytes, which kernels move at a time
constexpr std::size_t kScratchBytes = std::size_t{32} << 20;  // a whole batch, with the usual threshold
constexpr std::size_t kScratch = kScratchBytes / kEach;       // elements

}  // namespace

std::size_t Float32Sums::share_of(std::size_t count) const {
  const std::size_t share = (count + ranks_ - 1) / ranks_;
  return (share + kAlign - 1) / kAlign * kAlign;
}

std::size_t Float32Sums::begin_of(const Part& part, std::size_t rank) const {
  return std::min(part.share * rank, part.count);
}

std::size_t Float32Sums::count_of(const Part& part, std::size_t rank) const {
  return begin_of(part, rank + 1) - begin_of(part, rank);
}

// Where steps begin and end depends on the counts alone, so all ranks make the same ones. A part takes
// (ranks - 1) shares of the scratch memory, whether or not this rank's is a whole one.
void Float32Sums::allreduce(std::span<const Segment> segments, DType dtype, double factor) {
  const std::size_t most = kScratch / (ranks_ - 1) / kAlign * kAlign * ranks_;  // of a part
  auto* const scratch = lane_.scratch(std::max(kScratchBytes, (ranks_ - 1) * kAlign * kEach));
  std::vector<Part> parts;
  std::size_t used = 0;
  for (const auto& segment : segments) {
    const std::size_t longest = std::max(most, kAlign * ranks_);
    for (std::size_t begin = 0; begin < segment.count; begin += longest) {
      const std::size_t count = std::min(longest, segment.count - begin);
      const std::size_t room = (ranks_ - 1) * share_of(count);
      if (used + room > kScratch && !parts.empty()) {
        step(parts, dtype, factor);
        parts.clear();
        used = 0;
      }
      parts.push_back({static_cast<const std::byte*>(segment.input) + begin * kEach,
                       static_cast<std::byte*>(segment.output) + begin * kEach, count, share_of(count),
                       scratch + used * kEach});
      used += room;
    }
  }
  if (!parts.empty()) step(parts, dtype, factor);
}

void Float32Sums::step(std::span<Part> parts, DType dtype, double factor) {
  scatter(parts);
  for (const auto& part : parts) sum(part, dtype, factor);
  gather(parts);
}

void Float32Sums::scatter(std::span<const Part> parts) {
  const auto& nccl = lane_.nccl();
  const cudaStream_t stream = lane_.native_stream();
  communicator_.run_group("ncclSend", [&](ncclComm_t native, const Communicator::Take& take) {
    for (const auto& part : parts) {
      std::byte* room = part.room;
      const std::size_t own = count_of(part, rank_) * kEach;
      for (std::size_t rank = 0; rank < ranks_; ++rank) {
        if (rank == rank_) continue;
        const std::size_t theirs = count_of(part, rank) * kEach;
        const std::byte* from = part.input + begin_of(part, rank) * kEach;
        if (theirs > 0) take(nccl.send(from, theirs, ncclUint8, static_cast<int>(rank), native, stream));
        if (own > 0) take(nccl.recv(room, own, ncclUint8, static_cast<int>(rank), native, stream));
        room += own;
      }
    }
  });
}

void Float32Sums::sum(const Part& part, DType dtype, double factor) {
  const std::size_t begin = begin_of(part, rank_) * kEach;
  sum_all(part.output + begin, part.input + begin, part.room, count_of(part, rank_), dtype, factor);
}

void Float32Sums::sum_all(std::byte* to, const std::byte* own, const std::byte* room, std::size_t count,
                          DType dtype, double factor) {
  if (count == 0) return;
  std::vector<const void*> sources;
  for (std::size_t rank = 0; rank < ranks_; ++rank) {
    sources.push_back(rank == rank_ ? own : room);
    if (rank != rank_) room += count * kEach;
  }
  lane_.stream().sum(to, sources, count, dtype, factor);
}

// Other shares of the output were read by the scatter, where output and input are one, which is over then.
void Float32Sums::gather(std::span<const Part> parts) {
  const auto& nccl = lane_.nccl();
  const cudaStream_t stream = lane_.native_stream();
  communicator_.run_group("ncclSend", [&](ncclComm_t native, const Communicator::Take& take) {
    for (const auto& part : parts) {
      const std::size_t own = count_of(part, rank_) * kEach;
      const std::byte* from = part.output + begin_of(part, rank_) * kEach;
      for (std::size_t rank = 0; rank < ranks_; ++rank) {
        if (rank == rank_) continue;
        const std::size_t theirs = count_of(part, rank) * kEach;
        std::byte* to = part.output + begin_of(part, rank) * kEach;
        if (own > 0) take(nccl.send(from, own, ncclUint8, static_cast<int>(rank), native, stream));
        if (theirs > 0) take(nccl.recv(to, theirs, ncclUint8, static_cast<int>(rank), native, stream));
      }
    }
  });
}

// A step is a range of the elements of every rank's result, as far as it has them.
void Float32Sums::reducescatter(const void* input, void* output, std::span<const std::size_t> counts,
                                DType dtype, double factor) {
  const std::size_t most = std::max(kScratch / (ranks_ - 1) / kAlign, std::size_t{1}) * kAlign;
  auto* const room = lane_.scratch(std::max(kScratchBytes, most * (ranks_ - 1) * kEach));
  const auto* all = static_cast<const std::byte*>(input);
  const std::byte* own = all;
  for (std::size_t rank = 0; rank < rank_; ++rank) own += counts[rank] * kEach;
  const std::size_t longest = *std::max_element(counts.begin(), counts.end());
  for (std::size_t begin = 0; begin < longest; begin += most) {
    scatter_range(all, counts, begin, most, room);
    const std::size_t first = std::min(begin, counts[rank_]);
    const std::size_t count = std::min(most, counts[rank_] - first);
    sum_all(static_cast<std::byte*>(output) + first * kEach, own + first * kEach, room, count, dtype, factor);
  }
}

void Float32Sums::scatter_range(const std::byte* input, std::span<const std::size_t> counts,
                                std::size_t begin, std::size_t most, std::byte* room) {
  const auto& nccl = lane_.nccl();
  const cudaStream_t stream = lane_.native_stream();
  const auto bytes_of = [&](std::size_t rank) {
    return std::min(most, counts[rank] - std::min(begin, counts[rank])) * kEach;
  };
  communicator_.run_group("ncclSend", [&](ncclComm_t native, const Communicator::Take& take) {
    const std::size_t own = bytes_of(rank_);
    const std::byte* next = input;
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
      const std::byte* from = next + std::min(begin, counts[rank]) * kEach;
      next += counts[rank] * kEach;
      if (rank == rank_) continue;
      const std::size_t theirs = bytes_of(rank);
      if (theirs > 0) take(nccl.send(from, theirs, ncclUint8, static_cast<int>(rank), native, stream));
      if (own > 0) take(nccl.recv(room, own, ncclUint8, static_cast<int>(rank), native, stream));
      room += own;
    }
  });
}

}  // namespace hora::nccl
