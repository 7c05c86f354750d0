// SPDX-License-Identifier: Apache-2.0
#include "core/device/host_stream.h"

#include "core/base/memory.h"
#include "core/device/kernels.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

namespace hora {
namespace {

constexpr std::size_t kCachedBytes =
    4096;  // of elements that are looked at, or multiplied, while still in cache

bool finite(const float* values, std::size_t count) {
  return std::all_of(values, values + count, [](float value) { return std::isfinite(value); });
}

bool finite(const void* data, DType dtype, std::size_t count) {
  if (!is_float(dtype)) return true;
  if (dtype == DType::float64) {
    const auto* values = static_cast<const double*>(data);
    return std::all_of(values, values + count, [](double value) { return std::isfinite(value); });
  }
  std::array<float, kCachedBytes / sizeof(float)> wide;
  for (std::size_t begin = 0; begin < count; begin += wide.size()) {
    const std::size_t length = std::min(wide.size(), count - begin);
    kernels::cast(wide.data(), DType::float32, static_cast<const std::byte*>(data) + begin * size_of(dtype),
                  dtype, length);
    if (!finite(wide.data(), length)) return false;
  }
  return true;
}

/// to[i] = factor * from[i], in the wider of both dtypes and float32.
void scale(void* to, DType to_dtype, const void* from, DType from_dtype, std::size_t count, double factor) {
  const bool twice = to_dtype == DType::float64 || from_dtype == DType::float64;
  const DType wide = twice ? DType::float64 : DType::float32;
  alignas(64) std::array<std::byte, kCachedBytes> block;
  const std::size_t most = block.size() / size_of(wide);
  for (std::size_t begin = 0; begin < count; begin += most) {
    const std::size_t length = std::min(most, count - begin);
    kernels::cast(block.data(), wide, static_cast<const std::byte*>(from) + begin * size_of(from_dtype),
                  from_dtype, length);
    const void* input = block.data();
    void* output = block.data();
    kernels::reduce({&input, 1}, {&output, 1}, length, {wide, ReduceOp::sum, factor, 1.0, 1});
    kernels::cast(static_cast<std::byte*>(to) + begin * size_of(to_dtype), to_dtype, block.data(), wide,
                  length);
  }
}

class HostStream final : public Stream {
 public:
  void copy(void* to, const void* from, std::size_t bytes) override {
    if (bytes > 0 && to != from) std::memcpy(to, from, bytes);
  }
  void set_bytes(void* to, std::byte value, std::size_t bytes) override {
    if (bytes > 0) std::memset(to, std::to_integer<int>(value), bytes);
  }
  void move(std::span<const Move> moves, const Conversion& conversion) override {
    for (const auto& each : moves) {
      if (each.to != nullptr) convert(each, conversion);
      if (conversion.flag == nullptr) continue;
      const bool looks = each.to == nullptr;
      if (!finite(looks ? each.from : each.to, looks ? conversion.from : conversion.to, each.count))
        *conversion.flag = 1;
    }
  }
  void sum(void* to, std::span<const void* const> sources, std::size_t count, DType dtype,
           double factor) override {
    kernels::reduce(sources, {&to, 1}, count, {dtype, ReduceOp::sum, 1.0, factor, 1});
  }
  void quantize(std::span<const BlockMove> moves, const BlockConversion& conversion) override {
    for (const auto& each : moves)
      kernels::quantize(each.blocks, conversion.format, each.source, conversion.dtype, each.count,
                        conversion.factor);
  }
  void dequantize(std::span<const BlockMove> moves, const BlockConversion& conversion) override {
    for (const auto& each : moves) {
      kernels::dequantize(each.target, conversion.dtype, each.blocks, conversion.format, each.count);
      if (conversion.flag != nullptr && !finite(each.target, conversion.dtype, each.count))
        *conversion.flag = 1;
    }
  }
  void sum_blocks(const BlockFloats& to, std::span<const BlockFloats> sources, DType format,
                  std::size_t blocks, double factor) override {
    kernels::sum_blocks(to, sources, format, blocks, factor);
  }
  [[nodiscard]] std::shared_ptr<std::uint32_t> make_flag() override {
    return std::make_shared<std::uint32_t>(0);
  }
  [[nodiscard]] std::shared_ptr<Event> mark() override { return nullptr; }
  void wait(const Event& /*event*/) override {}

 private:
  void convert(const Move& move, const Conversion& conversion) {
    if (conversion.factor != 1.0)
      return scale(move.to, conversion.to, move.from, conversion.from, move.count, conversion.factor);
    if (conversion.to == conversion.from)
      return copy(move.to, move.from, move.count * size_of(conversion.to));
    kernels::cast(move.to, conversion.to, move.from, conversion.from, move.count);
  }
};

}  // namespace

std::unique_ptr<Stream> make_host_stream() { return std::make_unique<HostStream>(); }

}  // namespace hora
