// SPDX-License-Identifier: Apache-2.0
#include "core/compose/scan.h"

#include "core/base/memory.h"
#include "core/compose/pieces.h"

#include <vector>

namespace hora {

void scan(Collective& collective, int rank, int ranks, const void* input, void* output, std::size_t count,
          const Reduction& reduction) {
  if (count == 0) return;
  const auto all = static_cast<std::size_t>(ranks);
  const auto place = static_cast<std::size_t>(rank);
  const std::size_t each = size_of(reduction.dtype);
  const auto begin_of = [&](int i) { return share_begin(count, each, i, ranks); };
  const auto bytes_of = [&](std::size_t i) {
    return (begin_of(static_cast<int>(i) + 1) - begin_of(static_cast<int>(i))) * each;
  };
  std::vector<std::size_t> to_owners(all * all);
  std::vector<std::size_t> from_owners(all * all);
  for (std::size_t from = 0; from < all; ++from) {
    for (std::size_t to = 0; to < all; ++to) {
      to_owners[from * all + to] = bytes_of(to);
      from_owners[from * all + to] = bytes_of(from);
    }
  }
  const std::size_t own = bytes_of(place);
  const auto memory = allocate_aligned(2 * all * own);
  std::byte* shares = memory.get();
  std::byte* prefixes = shares + all * own;
  collective.alltoall(input, shares, to_owners);
  std::vector<const void*> inputs;
  for (std::size_t i = 0; i < all; ++i) {
    inputs.push_back(shares + i * own);
    void* prefix = prefixes + i * own;
    kernels::reduce(inputs, {&prefix, 1}, own / each, reduction);
  }
  collective.alltoall(prefixes, output, from_owners);
}

}  // namespace hora
