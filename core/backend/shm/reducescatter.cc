// SPDX-License-Identifier: Apache-2.0
#include "core/backend/shm/reducescatter.h"

#include <algorithm>
#include <cstring>

namespace hora::shm {
namespace {

constexpr std::size_t kScratchBytes = 256 * 1024;  // copied from each rank's private memory at a time

}  // namespace

void Reducescatter::run(const Segment& whole, std::size_t begin, std::size_t end,
                        const Reduction& reduction) {
  const std::size_t each = size_of(reduction.dtype);
  const std::size_t bytes = whole.count * each;
  const auto detail =
      static_cast<std::uint64_t>(reduction.dtype) << 8 | static_cast<std::uint64_t>(reduction.op);
  rounds_.open(Call::reducescatter, bytes, detail).inputs[0] = access_.locate(whole.input);
  const bool small = bytes <= kInlineBytes;
  if (small && bytes > 0) std::memcpy(rounds_.inline_buffer(communicator_.place()), whole.input, bytes);
  rounds_.meet();
  inputs_.resize(static_cast<std::size_t>(communicator_.size()));
  if (small) {
    for (int place = 0; place < communicator_.size(); ++place)
      inputs_[static_cast<std::size_t>(place)] = rounds_.inline_buffer(place) + begin * each;
    return sums_.reduce(inputs_, {&whole.output, 1}, end - begin, reduction);
  }
  if (!access_.everything() && !rounds_.all_in_arena(1, {&Mailbox::inputs}))
    return staged_sums_.reducescatter(whole, begin, end, reduction);
  const std::size_t step = kScratchBytes / each;
  for (std::size_t done = begin; done < end; done += step) {
    read_inputs(done * each, std::min(step, end - done) * each);
    void* output = static_cast<std::byte*>(whole.output) + (done - begin) * each;
    sums_.reduce(inputs_, {&output, 1}, std::min(step, end - done), reduction);
  }
  rounds_.phase();
}

/// Makes `inputs_` point to a range of the inputs of all ranks: in place, or in copies of private memory.
void Reducescatter::read_inputs(std::size_t begin, std::size_t bytes) {
  scratch_.resize(inputs_.size() * kScratchBytes);
  for (int place = 0; place < communicator_.size(); ++place) {
    const auto who = static_cast<std::size_t>(place);
    const Location& location = rounds_.mailbox(place).inputs[0];
    inputs_[who] = access_.local(place, location, begin, bytes);
    if (inputs_[who] != nullptr) continue;
    std::byte* copy = scratch_.data() + who * kScratchBytes;
    access_.read(place, location, begin, copy, bytes);
    inputs_[who] = copy;
  }
}

}  // namespace hora::shm
