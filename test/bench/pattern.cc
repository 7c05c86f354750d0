// SPDX-License-Identifier: Apache-2.0
#include "test/bench/pattern.h"

#include "test/support/elements.h"

#include <algorithm>
#include <cstring>

namespace hora::bench {
namespace {

// Element i is of kind (i ^ (i / kPage)) % kKinds, so that neither a shift by a page nor one by an element
// goes unnoticed; there are only kKinds different pages.
constexpr std::size_t kKinds = 8;
constexpr std::size_t kPage = 1024;

}  // namespace

int Pattern::brought(int rank, int iteration, std::size_t kind) const {
  const int value = (static_cast<int>(kind) + 3 * rank + iteration) % static_cast<int>(kKinds);
  return dtype_ == DType::boolean ? value % 2 : value;
}

int Pattern::result(int iteration, std::size_t kind) const {
  int total = brought(0, iteration, kind);
  for (int rank = 1; rank < ranks_; ++rank) {
    const int value = brought(rank, iteration, kind);
    if (op_ == ReduceOp::sum) total += value;
    if (op_ == ReduceOp::min) total = std::min(total, value);
    if (op_ == ReduceOp::max) total = std::max(total, value);
  }
  return dtype_ == DType::boolean ? std::min(total, 1) : total;
}

template <typename Value>
void Pattern::make_pages(const Value& value) {
  pages_.resize(kKinds * kPage * size_of(dtype_));
  for (std::size_t page = 0; page < kKinds; ++page) {
    for (std::size_t i = 0; i < kPage; ++i) {
      set_element(pages_.data(), dtype_, page * kPage + i, value((i ^ page) % kKinds));
    }
  }
}

void Pattern::begin(int rank, int iteration) {
  make_pages([&](std::size_t kind) { return brought(rank, iteration, kind); });
}

void Pattern::write(void* data, std::size_t first, std::size_t count) const {
  const std::size_t each = size_of(dtype_);
  auto* to = static_cast<std::byte*>(data);
  for (std::size_t at = first; at < first + count;) {
    const std::size_t length = std::min(kPage - at % kPage, first + count - at);
    const std::size_t from = at / kPage % kKinds * kPage + at % kPage;
    std::memcpy(to + at * each, pages_.data() + from * each, length * each);
    at += length;
  }
}

std::size_t Pattern::wrong(const void* data, std::size_t count, int iteration) {
  make_pages([&](std::size_t kind) { return result(iteration, kind); });
  const std::size_t each = size_of(dtype_);
  const auto* from = static_cast<const std::byte*>(data);
  std::size_t wrong = 0;
  for (std::size_t begin = 0; begin < count; begin += kPage) {
    const std::size_t length = std::min(kPage, count - begin);
    const std::byte* page = pages_.data() + begin / kPage % kKinds * kPage * each;
    const std::byte* found = from + begin * each;
    if (std::memcmp(found, page, length * each) == 0) continue;
    for (std::size_t i = 0; i < length; ++i)
      wrong += element(found, dtype_, i) == element(page, dtype_, i) ? 0 : 1;
  }
  return wrong;
}

}  // namespace hora::bench
