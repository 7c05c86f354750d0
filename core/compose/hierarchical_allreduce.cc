// SPDX-License-Identifier: Apache-2.0
#include "core/compose/hierarchical_allreduce.h"

#include "core/compose/pieces.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace hora {

void allreduce_in_steps(ThreeSteps& steps, std::span<const Segment> segments, const Phases& phases,
                        Packing* packing) {
  const std::size_t each = size_of(phases.within.dtype);
  const Cut cut = steps.cut(total_count(segments), each);
  if (cut.total == 0) return;
  const std::size_t bytes = std::min(cut.chunk, cut.total) * each;
  const std::array<std::byte*, 2> slices{steps.room(0, bytes), steps.room(1, bytes)};
  const auto length = [&](std::size_t k) { return cut.begin(k + 1) - cut.begin(k); };
  const auto first = [&](std::size_t k) {
    if (packing != nullptr) packing->pack(cut.begin(k), length(k));
    const std::byte* input = in_one_piece(segments, &Segment::input, each, cut.begin(k), length(k));
    if (input == nullptr) {
      std::byte* const gathered = steps.room(2, length(k) * each);
      gather_inputs(gathered, segments, each, cut.begin(k), cut.begin(k + 1),
                    [](void* to, const void* from, std::size_t count) { std::memcpy(to, from, count); });
      input = gathered;
    }
    steps.local().reducescatter(input, slices[k % 2], steps.slices_here(cut, length(k), 1), phases.within);
  };
  const auto across = [&](std::size_t k) {
    const Segment slice{slices[k % 2], slices[k % 2], cut.slice(length(k), steps.hosts().place)};
    if (slice.count > 0) steps.across().allreduce({&slice, 1}, phases.across);
  };
  const auto third = [&](std::size_t k) {
    std::byte* output = in_one_piece(segments, &Segment::output, each, cut.begin(k), length(k));
    std::byte* whole = output != nullptr ? output : steps.room(3, bytes);
    steps.local().allgather(slices[k % 2], whole, steps.slices_here(cut, length(k), each));
    if (output == nullptr) scatter_to_outputs(whole, segments, each, cut.begin(k), cut.begin(k + 1));
    if (packing != nullptr) packing->unpack(cut.begin(k), length(k));
  };
  steps.run(cut, first, across, third);
}

}  // namespace hora
