// SPDX-License-Identifier: Apache-2.0
#include "core/backend/shm/staged_sums.h"

#include "core/compose/pieces.h"

#include <algorithm>

namespace hora::shm {
namespace {

// With the buffer's own bytes in a second-level cache of 1 MiB.
constexpr std::size_t kPartBytes = kStageBytes / 2;

}  // namespace

StagedSums::StagedSums(const Communicator& communicator, Rounds& rounds, Sums& sums,
                       FastestCopy& fastest_copy, std::optional<bool> streams)
    : communicator_(communicator),
      rounds_(rounds),
      sums_(sums),
      copy_to_lines_just_read_(streams.value_or(false)),
      fastest_copy_(fastest_copy),
      inputs_(static_cast<std::size_t>(communicator.size())) {}

void StagedSums::allreduce(std::span<const Segment> segments, const Reduction& reduction) {
  const std::size_t total = total_count(segments);
  const std::size_t each = size_of(reduction.dtype);
  const std::size_t step = kPartBytes / each;
  Part part{.each = each};
  for (; part.begin < total; part.begin = part.end) {
    part.end = std::min(part.begin + step, total);
    bring(segments, part);
    rounds_.phase();
    sum(part, reduction);
    rounds_.phase();
    take(segments, part);
  }
}

std::size_t StagedSums::share(const Part& part, int place) const {
  return part.begin + share_begin(part.end - part.begin, part.each, place, communicator_.size());
}

std::byte* StagedSums::staged(const Part& part, int place, std::size_t element) const {
  return rounds_.stage(place) + (element - part.begin) * part.each;
}

void StagedSums::bring(std::span<const Segment> segments, const Part& part) {
  const std::size_t begin = share(part, communicator_.place());
  const std::size_t end = share(part, communicator_.place() + 1);
  own_input_ = in_one_piece(segments, &Segment::input, part.each, begin, end - begin);
  own_output_ = in_one_piece(segments, &Segment::output, part.each, begin, end - begin);
  if (own_input_ == nullptr || own_output_ == nullptr) {
    own_input_ = own_output_ = nullptr;
    return copy_in(copy_to_lines_just_read_, segments, part, part.begin, part.end);
  }
  copy_in(copy_to_lines_just_read_, segments, part, part.begin, begin);
  copy_in(copy_to_lines_just_read_, segments, part, end, part.end);
}

void StagedSums::sum(const Part& part, const Reduction& reduction) {
  const int own = communicator_.place();
  const std::size_t begin = share(part, own);
  const std::size_t count = share(part, own + 1) - begin;
  outputs_.clear();
  for (int place = 0; place < communicator_.size(); ++place) {
    const bool in_place = place == own && own_input_ != nullptr;
    inputs_[static_cast<std::size_t>(place)] = in_place ? own_input_ : staged(part, place, begin);
    outputs_.push_back(in_place ? own_output_ : staged(part, place, begin));
  }
  sums_.reduce(inputs_, outputs_, count, reduction);
}

void StagedSums::take(std::span<const Segment> segments, const Part& part) {
  if (own_input_ == nullptr) return copy_out(segments, part, part.begin, part.end);
  copy_out(segments, part, part.begin, share(part, communicator_.place()));
  copy_out(segments, part, share(part, communicator_.place() + 1), part.end);
}

void StagedSums::copy_in(FastestCopy& copy, std::span<const Segment> segments, const Part& part,
                         std::size_t begin, std::size_t end) {
  gather_inputs(staged(part, communicator_.place(), begin), segments, part.each, begin, end,
                [&](void* to, const void* from, std::size_t bytes) { copy.copy(to, from, bytes); });
}

void StagedSums::copy_out(std::span<const Segment> segments, const Part& part, std::size_t begin,
                          std::size_t end) {
  scatter_to_outputs(staged(part, communicator_.place(), begin), segments, part.each, begin, end);
}

void StagedSums::reducescatter(const Segment& whole, std::size_t begin, std::size_t end,
                               const Reduction& reduction) {
  const std::size_t each = size_of(reduction.dtype);
  const std::size_t step = kStageBytes / each;
  const auto* input = static_cast<const std::byte*>(whole.input);
  for (Part part{.each = each}; part.begin < whole.count; part.begin = part.end) {
    part.end = std::min(part.begin + step, whole.count);
    const std::size_t from = std::clamp(begin, part.begin, part.end);
    const std::size_t to = std::clamp(end, part.begin, part.end);
    copy_in(fastest_copy_, {&whole, 1}, part, part.begin, from);
    copy_in(fastest_copy_, {&whole, 1}, part, to, part.end);
    rounds_.phase();
    if (from < to) {
      for (int place = 0; place < communicator_.size(); ++place)
        inputs_[static_cast<std::size_t>(place)] = staged(part, place, from);
      inputs_[static_cast<std::size_t>(communicator_.place())] = input + from * each;
      void* output = static_cast<std::byte*>(whole.output) + (from - begin) * each;
      sums_.reduce(inputs_, {&output, 1}, to - from, reduction);
    }
    rounds_.phase();
  }
}

}  // namespace hora::shm
