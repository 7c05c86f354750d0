// SPDX-License-Identifier: Apache-2.0
#include "core/backend/shm/write_all.h"

namespace hora {
namespace {

// How much is done at a time: what is copied should stay in the second-level cache, and who leaves should not
// wait long.
constexpr std::size_t kFarBytes = 256 * 1024;
constexpr std::size_t kNearBytes = 1024 * 1024;

}  // namespace

WriteAll::WriteAll(const Arena& arena, const Rounds& rounds, Reach& reach, int rank, int ranks)
    : arena_(arena),
      rounds_(rounds),
      reach_(reach),
      rank_(rank),
      ranks_(ranks),
      inputs_(static_cast<std::size_t>(ranks)),
      outputs_(static_cast<std::size_t>(ranks)) {}

void WriteAll::run(std::span<const Segment> segments, const Reduction& reduction) {
  const std::size_t each = size_of(reduction.dtype);
  const std::size_t total = total_count(segments);
  for_each_range(segments, share_begin(total, each, rank_, ranks_),
                 share_begin(total, each, rank_ + 1, ranks_),
                 [&](const SegmentRange& range) { reduce(range, reduction); });
}

void WriteAll::reduce(const SegmentRange& range, const Reduction& reduction) {
  const std::size_t step = kNearBytes / size_of(reduction.dtype);
  for (std::size_t done = 0; done < range.count; done += step) {
    const Intrusion intrusion(arena_, rank_, ranks_);
    if (!intrusion.allowed()) return;
    reduce_part({range.segment, range.begin + done, std::min(step, range.count - done)}, reduction);
  }
}

void WriteAll::reduce_part(const SegmentRange& range, const Reduction& reduction) {
  const std::size_t each = size_of(reduction.dtype);
  bool near = true;
  for (int rank = 0; rank < ranks_; ++rank) {
    const auto who = static_cast<std::size_t>(rank);
    const Mailbox& box = rounds_.mailbox(rank);
    inputs_[who] = reach_.local(rank, box.inputs[range.segment], range.begin * each, range.count * each);
    outputs_[who] = reach_.local(rank, box.outputs[range.segment], range.begin * each, range.count * each);
    near = near && inputs_[who] != nullptr && outputs_[who] != nullptr;
  }
  if (near) return kernels::reduce(inputs_, outputs_, range.count, reduction);
  const std::size_t step = kFarBytes / each;
  for (std::size_t done = 0; done < range.count; done += step) {
    reduce_far({range.segment, range.begin + done, std::min(step, range.count - done)}, reduction);
  }
}

/// A range that fits the scratch, where some buffers are private to other processes: their inputs are copied
/// here, and the result, which takes the place of one of the copies, is written over there.
void WriteAll::reduce_far(const SegmentRange& range, const Reduction& reduction) {
  const std::size_t each = size_of(reduction.dtype);
  const std::size_t begin = range.begin * each;
  const std::size_t bytes = range.count * each;
  scratch_.resize(static_cast<std::size_t>(ranks_) * kFarBytes);
  std::vector<void*> outputs;
  std::vector<int> far;
  for (int rank = 0; rank < ranks_; ++rank) {
    const auto who = static_cast<std::size_t>(rank);
    const Mailbox& box = rounds_.mailbox(rank);
    inputs_[who] = reach_.local(rank, box.inputs[range.segment], begin, bytes);
    if (inputs_[who] == nullptr) {
      std::byte* copy = scratch_.data() + who * kFarBytes;
      reach_.read(rank, box.inputs[range.segment], begin, copy, bytes);
      inputs_[who] = copy;
    }
    if (auto* output = reach_.local(rank, box.outputs[range.segment], begin, bytes)) {
      outputs.push_back(output);
    } else {
      far.push_back(rank);
    }
  }
  std::byte* result =
      far.empty() ? nullptr : scratch_.data() + static_cast<std::size_t>(far.front()) * kFarBytes;
  if (result != nullptr) outputs.push_back(result);
  kernels::reduce(inputs_, outputs, range.count, reduction);
  for (const int rank : far)
    reach_.write(rank, rounds_.mailbox(rank).outputs[range.segment], begin, result, bytes);
}

}  // namespace hora
