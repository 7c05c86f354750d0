// SPDX-License-Identifier: Apache-2.0
#include "core/device/stepwise.h"

#include "core/base/dtypes.h"

#include <algorithm>

namespace hora {
namespace {

constexpr std::size_t kBlock = 2048;  // elements that are widened at a time

void* at(void* data, std::size_t bytes) { return static_cast<std::byte*>(data) + bytes; }
const void* at(const void* data, std::size_t bytes) { return static_cast<const std::byte*>(data) + bytes; }

}  // namespace

Stepwise::Stepwise(const Reduction& reduction)
    : whole_(reduction), partials_{sum_dtype(reduction.dtype), reduction.op, 1.0, 1.0, 1} {}

bool Stepwise::suits(const Reduction& reduction) {
  const DType partial = sum_dtype(reduction.dtype);
  return partial == DType::float32 || partial == DType::float64;
}

void Stepwise::begin(std::span<const void* const> inputs, void* partial, std::size_t count) {
  Reduction step = partials_;
  step.prescale = whole_.prescale;
  if (!widens()) return kernels::reduce(inputs, {&partial, 1}, count, step);
  const std::size_t each = partial_bytes();
  scratch_.resize(std::max(scratch_.size(), inputs.size() * kBlock * each));
  for (std::size_t done = 0; done < count; done += kBlock) {
    const std::size_t length = std::min(kBlock, count - done);
    widened_.clear();
    for (const void* input : inputs) {
      std::byte* wide = scratch_.data() + widened_.size() * kBlock * each;
      kernels::cast(wide, step.dtype, at(input, done * size_of(whole_.dtype)), whole_.dtype, length);
      widened_.push_back(wide);
    }
    void* to = at(partial, done * each);
    kernels::reduce(widened_, {&to, 1}, length, step);
  }
}

void Stepwise::go_on(std::span<const void* const> partials, void* partial, std::size_t count) {
  kernels::reduce(partials, {&partial, 1}, count, partials_);
}

void Stepwise::end(std::span<const void* const> partials, std::span<void* const> outputs, std::size_t count) {
  Reduction step = partials_;
  step.postscale = whole_.postscale;
  step.divisor = whole_.divisor;
  if (!widens()) return kernels::reduce(partials, outputs, count, step);
  const std::size_t each = partial_bytes();
  scratch_.resize(std::max(scratch_.size(), kBlock * each));
  void* wide = scratch_.data();
  for (std::size_t done = 0; done < count; done += kBlock) {
    const std::size_t length = std::min(kBlock, count - done);
    widened_.clear();
    for (const void* other : partials) widened_.push_back(at(other, done * each));
    kernels::reduce(widened_, {&wide, 1}, length, step);
    for (void* output : outputs)
      kernels::cast(at(output, done * size_of(whole_.dtype)), whole_.dtype, wide, step.dtype, length);
  }
}

}  // namespace hora
