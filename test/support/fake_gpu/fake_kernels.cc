// SPDX-License-Identifier: Apache-2.0
#include "test/support/fake_gpu/fake_kernels.h"

#include "core/backend/cuda/kernels.h"
#include "core/base/half.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <type_traits>

// The kernels as plain loops, one element after the other: kernels.cu does the same in tiles and units.

namespace hora {
namespace {

using Reached = std::function<bool(const void*, std::size_t)>;

struct Float16 {
  using Stored = std::uint16_t;
  using Value = float;
  static float load(Stored bits) { return float_from_float16(bits); }
  static Stored store(float value) { return float16_from(value); }
};

struct Bfloat16 {
  using Stored = std::uint16_t;
  using Value = float;
  static float load(Stored bits) { return float_from_bfloat16(bits); }
  static Stored store(float value) { return bfloat16_from(value); }
};

template <typename T>
struct Plain {
  using Stored = T;
  using Value = T;
  static T load(T value) { return value; }
  static T store(T value) { return value; }
};

template <typename T>
T read(std::uint64_t address, std::uint64_t i) {
  T value;
  std::memcpy(&value, reinterpret_cast<const std::byte*>(address) + i * sizeof(T), sizeof(T));
  return value;
}

template <typename T>
void write(std::uint64_t address, std::uint64_t i, T value) {
  std::memcpy(reinterpret_cast<std::byte*>(address) + i * sizeof(T), &value, sizeof(T));
}

const void* pointer(std::uint64_t address) { return reinterpret_cast<const void*>(address); }

/// Whether the table's tiles are those of its moves, and the grid has as many blocks.
template <typename Table>
bool tiles_fit(const Table& table, unsigned grid, std::uint32_t to_size, std::uint32_t from_size) {
  std::uint64_t tiles = 0;
  for (std::uint32_t m = 0; m < table.moves; ++m) {
    if (table.first_tile[m] != tiles) return false;
    tiles += cuda::tiles_of(cuda::walk_of(table.to[m], table.from[m], table.count[m], to_size, from_size),
                            table.tile_units);
  }
  return table.moves <= Table::kMost && tiles == grid;
}

template <typename Table>
bool copy(const void* parameters, unsigned grid, const Reached& reached) {
  const auto& table = *static_cast<const Table*>(parameters);
  if (!tiles_fit(table, grid, 1, 1)) return false;
  for (std::uint32_t m = 0; m < table.moves; ++m) {
    if (!reached(pointer(table.to[m]), table.count[m]) || !reached(pointer(table.from[m]), table.count[m]))
      return false;
    for (std::uint64_t i = 0; i < table.count[m]; ++i)
      write(table.to[m], i, read<std::byte>(table.from[m], i));
  }
  return true;
}

template <typename To, typename From>
typename To::Stored converted(typename From::Stored bits, double factor) {
  constexpr bool kTwice =
      std::is_same_v<typename To::Value, double> || std::is_same_v<typename From::Value, double>;
  using Wide = std::conditional_t<kTwice, double, float>;
  if constexpr (std::is_same_v<To, From>) {
    if (factor == 1.0) return bits;
  }
  auto value = static_cast<Wide>(From::load(bits));
  if (factor != 1.0) value *= static_cast<Wide>(factor);
  return To::store(static_cast<typename To::Value>(value));
}

template <typename Table, typename To, typename From>
bool move(const void* parameters, unsigned grid, const Reached& reached) {
  using ToStored = typename To::Stored;
  using FromStored = typename From::Stored;
  const auto& table = *static_cast<const Table*>(parameters);
  if (!tiles_fit(table, grid, sizeof(ToStored), sizeof(FromStored))) return false;
  if (table.flag != nullptr && !reached(table.flag, sizeof(*table.flag))) return false;
  for (std::uint32_t m = 0; m < table.moves; ++m) {
    const std::uint64_t count = table.count[m];
    if (!reached(pointer(table.from[m]), count * sizeof(FromStored))) return false;
    if (table.to[m] != 0 && !reached(pointer(table.to[m]), count * sizeof(ToStored))) return false;
    for (std::uint64_t i = 0; i < count; ++i) {
      const ToStored result = converted<To, From>(read<FromStored>(table.from[m], i), table.factor);
      if (table.to[m] != 0) write(table.to[m], i, result);
      if (table.flag != nullptr && !std::isfinite(To::load(result))) *table.flag = 1;
    }
  }
  return true;
}

template <typename Table, typename T>
bool sum(const void* parameters, unsigned grid, const Reached& reached) {
  using Stored = typename T::Stored;
  const auto& table = *static_cast<const Table*>(parameters);
  const std::uint64_t threads = table.count / table.unit + table.count % table.unit;
  if ((threads + cuda::kThreads - 1) / cuda::kThreads != grid ||
      !reached(pointer(table.to), table.count * sizeof(Stored)))
    return false;
  for (std::uint32_t s = 0; s < table.sources; ++s) {
    if (!reached(pointer(table.from[s]), table.count * sizeof(Stored))) return false;
    if (table.unit != 1 && (table.from[s] | table.to) % 16 != 0) return false;
  }
  for (std::uint64_t i = 0; i < table.count; ++i) {
    float value = T::load(read<Stored>(table.from[0], i));
    for (std::uint32_t s = 1; s < table.sources; ++s) value += T::load(read<Stored>(table.from[s], i));
    if (table.factor != 1.0) value *= static_cast<float>(table.factor);
    write(table.to, i, T::store(value));
  }
  return true;
}

using Kernels = std::map<std::string, FakeKernel>;

template <typename To, typename From>
void add_move(Kernels& kernels, const std::string& name) {
  kernels[name] = {sizeof(cuda::SmallMoves), move<cuda::SmallMoves, To, From>};
  kernels[name + "_large"] = {sizeof(cuda::LargeMoves), move<cuda::LargeMoves, To, From>};
}

template <typename From>
void add_moves(Kernels& kernels, const std::string& from) {
  add_move<Float16, From>(kernels, "hora_move_f16_" + from);
  add_move<Bfloat16, From>(kernels, "hora_move_bf16_" + from);
  add_move<Plain<float>, From>(kernels, "hora_move_f32_" + from);
  add_move<Plain<double>, From>(kernels, "hora_move_f64_" + from);
}

template <typename T>
void add_sum(Kernels& kernels, const std::string& name) {
  kernels[name] = {sizeof(cuda::SmallSum), sum<cuda::SmallSum, T>};
  kernels[name + "_large"] = {sizeof(cuda::LargeSum), sum<cuda::LargeSum, T>};
}

Kernels all() {
  Kernels kernels;
  kernels["hora_copy"] = {sizeof(cuda::SmallMoves), copy<cuda::SmallMoves>};
  kernels["hora_copy_large"] = {sizeof(cuda::LargeMoves), copy<cuda::LargeMoves>};
  add_moves<Float16>(kernels, "f16");
  add_moves<Bfloat16>(kernels, "bf16");
  add_moves<Plain<float>>(kernels, "f32");
  add_moves<Plain<double>>(kernels, "f64");
  add_sum<Float16>(kernels, "hora_sum_f16");
  add_sum<Bfloat16>(kernels, "hora_sum_bf16");
  add_sum<Plain<float>>(kernels, "hora_sum_f32");
  return kernels;
}

}  // namespace

const Kernels& fake_kernels() {
  static const Kernels kernels = all();
  return kernels;
}

}  // namespace hora
