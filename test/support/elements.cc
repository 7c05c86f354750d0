// SPDX-License-Identifier: Apache-2.0
#include "test/support/elements.h"

#include "core/base/elements.h"

#include <cstring>

namespace hora {

std::vector<DType> reduced_dtypes() {
  std::vector<DType> dtypes;
  for (int i = 0; i < kDTypes; ++i) {
    const auto dtype = static_cast<DType>(i);
    if (!is_complex(dtype) && !is_float8(dtype)) dtypes.push_back(dtype);
  }
  return dtypes;
}

void set_element(void* data, DType dtype, std::size_t index, int value) {
  with_element(dtype, [&](auto element) {
    element = decltype(element)::from(static_cast<decltype(element.number())>(value));
    std::memcpy(static_cast<std::byte*>(data) + index * sizeof element, &element, sizeof element);
  });
}

double element(const void* data, DType dtype, std::size_t index) {
  return with_element(dtype, [&](auto element) {
    std::memcpy(&element, static_cast<const std::byte*>(data) + index * sizeof element, sizeof element);
    return static_cast<double>(element.number());
  });
}

void Elements::set(std::size_t index, int value) { set_element(bytes_.data(), dtype_, index, value); }

double Elements::at(std::size_t index) const { return element(bytes_.data(), dtype_, index); }

}  // namespace hora
