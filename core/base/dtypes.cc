// SPDX-License-Identifier: Apache-2.0
#include "core/base/dtypes.h"

#include <array>

namespace hora {
namespace {

struct DTypeRow {
  std::string_view name;
  std::size_t size;  // bytes
  NumberKind kind;
};

/// A row for each DType, in the order of their numbers.
constexpr std::array<DTypeRow, kDTypes> kDTypeRows{{
    {"uint8", 1, NumberKind::unsigned_integer},
    {"int8", 1, NumberKind::signed_integer},
    {"int16", 2, NumberKind::signed_integer},
    {"int32", 4, NumberKind::signed_integer},
    {"int64", 8, NumberKind::signed_integer},
    {"float16", 2, NumberKind::ieee_float},
    {"bfloat16", 2, NumberKind::brain_float},
    {"float32", 4, NumberKind::ieee_float},
    {"float64", 8, NumberKind::ieee_float},
    {"bool", 1, NumberKind::boolean},
    {"uint16", 2, NumberKind::unsigned_integer},
    {"uint32", 4, NumberKind::unsigned_integer},
    {"uint64", 8, NumberKind::unsigned_integer},
    {"complex64", 8, NumberKind::complex},
    {"complex128", 16, NumberKind::complex},
    {"float8_e4m3fn", 1, NumberKind::float8_e4m3fn},
    {"float8_e4m3fnuz", 1, NumberKind::float8_e4m3fnuz},
    {"float8_e5m2", 1, NumberKind::float8_e5m2},
    {"float8_e5m2fnuz", 1, NumberKind::float8_e5m2fnuz},
    {"float8_e8m0fnu", 1, NumberKind::float8_e8m0fnu},
}};

constexpr std::array<std::string_view, kReduceOps> kReduceOpNames{
    "average", "sum",    "min",     "max",         "product",   "adasum",
    "bit_and", "bit_or", "bit_xor", "logical_and", "logical_or"};

const DTypeRow& row_of(DType dtype) { return kDTypeRows.at(static_cast<std::size_t>(dtype)); }

}  // namespace

std::size_t size_of(DType dtype) { return row_of(dtype).size; }

std::string_view name(DType dtype) { return row_of(dtype).name; }

NumberKind kind_of(DType dtype) { return row_of(dtype).kind; }

bool is_half(DType dtype) { return is_float(dtype) && size_of(dtype) == 2; }

DType sum_dtype(DType dtype) { return is_half(dtype) ? DType::float32 : dtype; }

Numbers numbers_of(DType dtype) {
  if (!is_complex(dtype)) return {dtype, 1};
  return {dtype == DType::complex64 ? DType::float32 : DType::float64, 2};
}

std::optional<DType> dtype_named(std::string_view name) {
  for (int i = 0; i < kDTypes; ++i) {
    if (kDTypeRows[static_cast<std::size_t>(i)].name == name) return static_cast<DType>(i);
  }
  return std::nullopt;
}

std::string_view name(ReduceOp op) { return kReduceOpNames.at(static_cast<std::size_t>(op)); }

}  // namespace hora
