// SPDX-License-Identifier: Apache-2.0
#include "test/support/elements.h"

#include "core/base/half.h"

#include <cstdint>
#include <cstring>

namespace hora {
namespace {

template <typename T>
void put(void* data, std::size_t index, T value) {
  std::memcpy(static_cast<std::byte*>(data) + index * sizeof(T), &value, sizeof(T));
}

template <typename T>
T take(const void* data, std::size_t index) {
  T value;
  std::memcpy(&value, static_cast<const std::byte*>(data) + index * sizeof(T), sizeof(T));
  return value;
}

}  // namespace

void set_element(void* data, DType dtype, std::size_t index, int value) {
  switch (dtype) {
    case DType::uint8: return put(data, index, static_cast<std::uint8_t>(value));
    case DType::int8: return put(data, index, static_cast<std::int8_t>(value));
    case DType::int16: return put(data, index, static_cast<std::int16_t>(value));
    case DType::int32: return put(data, index, static_cast<std::int32_t>(value));
    case DType::int64: return put(data, index, static_cast<std::int64_t>(value));
    case DType::float16: return put(data, index, float16_from(static_cast<float>(value)));
    case DType::bfloat16: return put(data, index, bfloat16_from(static_cast<float>(value)));
    case DType::float32: return put(data, index, static_cast<float>(value));
    case DType::float64: return put(data, index, static_cast<double>(value));
    case DType::boolean: return put(data, index, static_cast<std::uint8_t>(value));
  }
}

double element(const void* data, DType dtype, std::size_t index) {
  switch (dtype) {
    case DType::uint8: return take<std::uint8_t>(data, index);
    case DType::int8: return take<std::int8_t>(data, index);
    case DType::int16: return take<std::int16_t>(data, index);
    case DType::int32: return take<std::int32_t>(data, index);
    case DType::int64: return static_cast<double>(take<std::int64_t>(data, index));
    case DType::float16: return static_cast<double>(float_from_float16(take<std::uint16_t>(data, index)));
    case DType::bfloat16: return static_cast<double>(float_from_bfloat16(take<std::uint16_t>(data, index)));
    case DType::float32: return static_cast<double>(take<float>(data, index));
    case DType::float64: return take<double>(data, index);
    case DType::boolean: return take<std::uint8_t>(data, index);
  }
  return 0;
}

void Elements::set(std::size_t index, int value) { set_element(bytes_.data(), dtype_, index, value); }

double Elements::at(std::size_t index) const { return element(bytes_.data(), dtype_, index); }

}  // namespace hora
