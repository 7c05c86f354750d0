// SPDX-License-Identifier: Apache-2.0
#include "core/compose/adasum.h"

#include "core/base/memory.h"
#include "core/compose/pieces.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace hora {
namespace {

/// The dot products of two vectors, with themselves and with each other.
struct Products {
  double aa = 0;
  double bb = 0;
  double ab = 0;
};

/// The factor of a vector: 1 if it is too short to tell its direction.
double factor(double squared, double product) {
  static const double shortest = std::sqrt(std::numeric_limits<double>::min());
  return squared < shortest ? 1.0 : 1.0 - product / (2.0 * squared);
}

/// One rank's share of every rank's vectors, as `Work` elements. `ranges`: the parts of it that belong to the
/// segments, counted from the start of the share.
template <typename Work>
class Tree {
 public:
  Tree(std::size_t vectors, std::size_t share, std::vector<SegmentRange> ranges, std::size_t segments)
      : share_(share), ranges_(std::move(ranges)), segments_(segments), elements_(vectors * share) {
    for (std::size_t i = 0; i < vectors; ++i) active_.push_back(i);
  }

  Work* vector(std::size_t index) { return elements_.data() + index * share_; }

  /// Combines neighbours until one is left, the first.
  void climb(Collective& collective) {
    while (active_.size() > 1) {
      std::vector<Products> products = multiply();
      auto* sums = &products.front().aa;
      const Segment segment{sums, sums, products.size() * 3};
      collective.allreduce({&segment, 1}, {DType::float64, ReduceOp::sum, 1.0, 1.0, 1});
      combine(products);
    }
  }

 private:
  /// Of each pair, for each segment: this share's part.
  std::vector<Products> multiply() {
    std::vector<Products> products(active_.size() / 2 * segments_);
    for (std::size_t pair = 0; pair < active_.size() / 2; ++pair) {
      const Work* a = vector(active_[2 * pair]);
      const Work* b = vector(active_[2 * pair + 1]);
      for (const auto& range : ranges_) {
        Products& p = products[pair * segments_ + range.segment];
        for (std::size_t i = range.begin; i < range.begin + range.count; ++i) {
          const auto x = static_cast<double>(a[i]);
          const auto y = static_cast<double>(b[i]);
          p.aa += x * x;
          p.bb += y * y;
          p.ab += x * y;
        }
      }
    }
    return products;
  }

  void combine(const std::vector<Products>& products) {
    std::vector<std::size_t> next;
    for (std::size_t i = 0; i < active_.size(); i += 2) next.push_back(active_[i]);
    for (std::size_t pair = 0; pair < active_.size() / 2; ++pair) {
      Work* a = vector(active_[2 * pair]);
      const Work* b = vector(active_[2 * pair + 1]);
      for (const auto& range : ranges_) {
        const Products& p = products[pair * segments_ + range.segment];
        const auto of_a = static_cast<Work>(factor(p.aa, p.ab));
        const auto of_b = static_cast<Work>(factor(p.bb, p.ab));
        for (std::size_t i = range.begin; i < range.begin + range.count; ++i)
          a[i] = of_a * a[i] + of_b * b[i];
      }
    }
    active_ = std::move(next);
  }

  std::size_t share_;
  std::vector<SegmentRange> ranges_;
  std::size_t segments_;
  std::vector<Work> elements_;
  std::vector<std::size_t> active_;  // vectors that are not combined yet
};

/// The parts of the segments in [begin, end) of the whole, counted from there.
std::vector<SegmentRange> ranges_within(std::span<const Segment> segments, std::size_t begin,
                                        std::size_t end) {
  std::vector<SegmentRange> ranges;
  std::size_t done = 0;
  for_each_range(segments, begin, end, [&](const SegmentRange& range) {
    ranges.push_back({range.segment, done, range.count});
    done += range.count;
  });
  return ranges;
}

/// to[i] = factor * from[i], by way of `Work`.
template <typename Work>
void scale(void* to, DType to_dtype, const void* from, DType from_dtype, std::size_t count, double factor) {
  constexpr DType kWork = sizeof(Work) == 8 ? DType::float64 : DType::float32;
  constexpr std::size_t kStep = 4096;
  std::vector<Work> buffer(std::min(count, kStep));
  for (std::size_t done = 0; done < count; done += kStep) {
    const std::size_t length = std::min(kStep, count - done);
    kernels::cast(buffer.data(), kWork, static_cast<const std::byte*>(from) + done * size_of(from_dtype),
                  from_dtype, length);
    if (factor != 1.0) {
      for (std::size_t i = 0; i < length; ++i) buffer[i] *= static_cast<Work>(factor);
    }
    kernels::cast(static_cast<std::byte*>(to) + done * size_of(to_dtype), to_dtype, buffer.data(), kWork,
                  length);
  }
}

template <typename Work>
void run(Collective& collective, int rank, int ranks, std::span<const Segment> segments, DType dtype,
         DType wire, double prescale, double postscale) {
  constexpr DType kWork = sizeof(Work) == 8 ? DType::float64 : DType::float32;
  const std::size_t each = size_of(wire);
  const std::size_t total = total_count(segments);
  const auto begin_of = [&](int place) { return share_begin(total, each, place, ranks); };
  const std::size_t begin = begin_of(rank);
  const std::size_t share = begin_of(rank + 1) - begin;

  const auto whole = collective.allocate(total * each);  // all segments, one after the other
  std::byte* next = whole.get();
  for (const auto& segment : segments) {
    scale<Work>(next, wire, segment.input, dtype, segment.count, prescale);
    next += segment.count * each;
  }
  const auto count = static_cast<std::size_t>(ranks);
  std::vector<std::size_t> shares(count);
  for (int other = 0; other < ranks; ++other)
    shares[static_cast<std::size_t>(other)] = (begin_of(other + 1) - begin_of(other)) * each;
  std::vector<std::size_t> bytes;
  for (std::size_t from = 0; from < count; ++from) bytes.insert(bytes.end(), shares.begin(), shares.end());
  const auto received = collective.allocate(count * share * each);
  collective.alltoall(whole.get(), received.get(), bytes);

  Tree<Work> tree(count, share, ranges_within(segments, begin, begin + share), segments.size());
  for (std::size_t from = 0; from < count; ++from)
    kernels::cast(tree.vector(from), kWork, received.get() + from * share * each, wire, share);
  tree.climb(collective);
  kernels::cast(received.get(), wire, tree.vector(0), kWork, share);
  collective.allgather(received.get(), whole.get(), shares);

  const std::byte* result = whole.get();
  for (const auto& segment : segments) {
    scale<Work>(segment.output, dtype, result, wire, segment.count, postscale);
    result += segment.count * each;
  }
}

}  // namespace

void adasum(Collective& collective, int rank, int ranks, std::span<const Segment> segments, DType dtype,
            DType wire, double prescale, double postscale) {
  const bool wide = dtype == DType::float64 && wire == DType::float64;
  const auto reduce = wide ? &run<double> : &run<float>;
  reduce(collective, rank, ranks, segments, dtype, wire, prescale, postscale);
}

}  // namespace hora
