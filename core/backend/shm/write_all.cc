// SPDX-License-Identifier: Apache-2.0
#include "core/backend/shm/write_all.h"

#include <utility>

namespace hora::shm {
namespace {

// How much is done at a time: what is copied should stay in the second-level cache, and who leaves should not
// wait long.
constexpr std::size_t kFarBytes = 256 * 1024;
constexpr std::size_t kNearBytes = 1024 * 1024;

}  // namespace

WriteAll::WriteAll(Communicator communicator, const Rounds& rounds, RemoteAccess& access, Sums& sums)
    : communicator_(std::move(communicator)),
      rounds_(rounds),
      access_(access),
      sums_(sums),
      inputs_(static_cast<std::size_t>(communicator_.size())),
      outputs_(inputs_.size()) {}

void WriteAll::run(std::span<const Segment> segments, const Reduction& reduction) {
  const std::size_t each = size_of(reduction.dtype);
  const std::size_t total = total_count(segments);
  for_each_range(segments, share_begin(total, each, communicator_.place(), communicator_.size()),
                 share_begin(total, each, communicator_.place() + 1, communicator_.size()),
                 [&](const SegmentRange& range) { reduce(range, reduction); });
}

void WriteAll::reduce(const SegmentRange& range, const Reduction& reduction) {
  const std::size_t step = kNearBytes / size_of(reduction.dtype);
  for (std::size_t done = 0; done < range.count; done += step) {
    const WriteGuard guard(communicator_);
    if (!guard.allowed()) return;
    reduce_part({range.segment, range.begin + done, std::min(step, range.count - done)}, reduction);
  }
}

void WriteAll::reduce_part(const SegmentRange& range, const Reduction& reduction) {
  const std::size_t each = size_of(reduction.dtype);
  bool near = true;
  for (int place = 0; place < communicator_.size(); ++place) {
    const auto who = static_cast<std::size_t>(place);
    const Mailbox& box = rounds_.mailbox(place);
    inputs_[who] = access_.local(place, box.inputs[range.segment], range.begin * each, range.count * each);
    outputs_[who] = access_.local(place, box.outputs[range.segment], range.begin * each, range.count * each);
    near = near && inputs_[who] != nullptr && outputs_[who] != nullptr;
  }
  if (near) return sums_.reduce(inputs_, outputs_, range.count, reduction);
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
  scratch_.resize(inputs_.size() * kFarBytes);
  std::vector<void*> outputs;
  std::vector<int> far;
  for (int place = 0; place < communicator_.size(); ++place) {
    const auto who = static_cast<std::size_t>(place);
    const Mailbox& box = rounds_.mailbox(place);
    inputs_[who] = access_.local(place, box.inputs[range.segment], begin, bytes);
    if (inputs_[who] == nullptr) {
      std::byte* copy = scratch_.data() + who * kFarBytes;
      access_.read(place, box.inputs[range.segment], begin, copy, bytes);
      inputs_[who] = copy;
    }
    if (auto* output = access_.local(place, box.outputs[range.segment], begin, bytes)) {
      outputs.push_back(output);
    } else {
      far.push_back(place);
    }
  }
  std::byte* result =
      far.empty() ? nullptr : scratch_.data() + static_cast<std::size_t>(far.front()) * kFarBytes;
  if (result != nullptr) outputs.push_back(result);
  sums_.reduce(inputs_, outputs, range.count, reduction);
  for (const int place : far)
    access_.write(place, rounds_.mailbox(place).outputs[range.segment], begin, result, bytes);
}

}  // namespace hora::shm
