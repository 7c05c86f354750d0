// SPDX-License-Identifier: Apache-2.0
#include "test/support/fake_gpu/fake_kernels.h"

#include "core/backend/cuda/kernels.h"
#include "test/support/fake_gpu/host_kernels/thread_block.h"

#include <dlfcn.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <utility>

namespace hora {
namespace {

using RunBlocks = decltype(&hora_run_blocks);

/// The sizes of elements, in bytes.
struct Sizes {
  std::uint32_t to = 1;
  std::uint32_t from = 1;
};

const void* pointer(std::uint64_t address) { return reinterpret_cast<const void*>(address); }

/// Whether the table's tiles are those of its moves, the grid has as many blocks, and the GPU reaches it all.
template <typename Table>
bool fits_moves(const Table& table, const Sizes& sizes, unsigned grid, const FakeKernel::Reached& reached) {
  if (table.moves > Table::kMost) return false;
  if (table.flag != nullptr && !reached(table.flag, sizeof(*table.flag))) return false;
  std::uint64_t tiles = 0;
  for (std::uint32_t m = 0; m < table.moves; ++m) {
    if (table.first_tile[m] != tiles) return false;
    tiles += cuda::tiles_of(cuda::walk_of(table.to[m], table.from[m], table.count[m], sizes.to, sizes.from),
                            table.tile_units);
    if (!reached(pointer(table.from[m]), table.count[m] * sizes.from)) return false;
    if (table.to[m] != 0 && !reached(pointer(table.to[m]), table.count[m] * sizes.to)) return false;
  }
  return tiles == grid;
}

template <typename Table>
bool fits_sum(const Table& table, const Sizes& sizes, unsigned grid, const FakeKernel::Reached& reached) {
  if (table.sources > Table::kMost || cuda::sum_blocks(table.count, table.unit) != grid) return false;
  for (std::uint32_t s = 0; s < table.sources; ++s) {
    if (!reached(pointer(table.from[s]), table.count * sizes.from)) return false;
  }
  return reached(pointer(table.to), table.count * sizes.to);
}

constexpr std::uint64_t kElementsOfBlock = 32;  // and a scale of one byte

bool reaches_blocks(std::uint64_t elements, std::uint64_t scales, std::uint64_t count,
                    const FakeKernel::Reached& reached) {
  const std::uint64_t blocks = (count + kElementsOfBlock - 1) / kElementsOfBlock;
  return reached(pointer(elements), blocks * kElementsOfBlock) && reached(pointer(scales), blocks);
}

template <typename Table>
bool fits_blocks(const Table& table, const Sizes& sizes, unsigned grid, const FakeKernel::Reached& reached) {
  if (table.moves > Table::kMost) return false;
  if (table.flag != nullptr && !reached(table.flag, sizeof(*table.flag))) return false;
  std::uint64_t tiles = 0;
  for (std::uint32_t m = 0; m < table.moves; ++m) {
    if (table.first_tile[m] != tiles) return false;
    tiles += cuda::tiles_of(cuda::block_walk(table.count[m]), table.tile_units);
    if (!reached(pointer(table.plain[m]), table.count[m] * sizes.from)) return false;
    if (!reaches_blocks(table.elements[m], table.scales[m], table.count[m], reached)) return false;
  }
  return tiles == grid;
}

template <typename Table>
bool fits_block_sum(const Table& table, const Sizes& /*sizes*/, unsigned grid,
                    const FakeKernel::Reached& reached) {
  if (table.sources > Table::kMost || table.count % kElementsOfBlock != 0) return false;
  if (cuda::tiles_of(cuda::block_walk(table.count), table.tile_units) != grid) return false;
  for (std::uint32_t s = 0; s < table.sources; ++s) {
    if (!reaches_blocks(table.elements[s], table.scales[s], table.count, reached)) return false;
  }
  return reaches_blocks(table.to_elements, table.to_scales, table.count, reached);
}

/// The kernels for some kind of GPU: a library that CMake makes of kernels.cu. It stays open.
class Library {
 public:
  explicit Library(int architecture) {
    const std::string path =
        HORA_HOST_KERNELS + std::string("/libhora_host_kernels_") + std::to_string(architecture) + ".so";
    library_ = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library_ == nullptr) {
      std::fprintf(stderr, "%s\n", dlerror());
      std::abort();
    }
    run_ = reinterpret_cast<RunBlocks>(dlsym(library_, "hora_run_blocks"));
    add_all();
  }

  [[nodiscard]] const FakeKernel* find(const std::string& name) const {
    const auto found = kernels_.find(name);
    return found == kernels_.end() ? nullptr : &found->second;
  }

 private:
  template <typename Table, typename Fits>
  void add(const std::string& name, const Sizes& sizes, const Fits& fits) {
    void* const kernel = dlsym(library_, name.c_str());
    const auto call = [](void* function, const void* table) {
      reinterpret_cast<void (*)(const Table&)>(function)(*static_cast<const Table*>(table));
    };
    kernels_[name] = {sizeof(Table),
                      [=, run = run_](const void* parameters, unsigned grid,
                                      const FakeKernel::Reached& reached, MemoryTraffic* traffic) {
                        return fits(*static_cast<const Table*>(parameters), sizes, grid, reached) &&
                               run({call, kernel, parameters, grid, cuda::kThreads, traffic});
                      }};
  }

  void add_moves(const std::string& name, const Sizes& sizes) {
    add<cuda::SmallMoves>(name, sizes, fits_moves<cuda::SmallMoves>);
    add<cuda::LargeMoves>(name + "_large", sizes, fits_moves<cuda::LargeMoves>);
  }

  void add_blocks(const std::string& name, std::uint32_t size) {
    add<cuda::SmallBlocks>(name, {size, size}, fits_blocks<cuda::SmallBlocks>);
    add<cuda::LargeBlocks>(name + "_large", {size, size}, fits_blocks<cuda::LargeBlocks>);
  }

  void add_all() {
    constexpr std::array<std::pair<const char*, std::uint32_t>, 4> kFloats{
        {{"f16", 2}, {"bf16", 2}, {"f32", 4}, {"f64", 8}}};
    add_moves("hora_copy", {});
    for (const auto& [to, to_size] : kFloats) {
      for (const auto& [from, from_size] : kFloats)
        add_moves(std::string("hora_move_") + to + "_" + from, {to_size, from_size});
      for (const std::string format : {"e4m3", "e5m2"}) {
        add_blocks("hora_quantize_" + format + "_" + to, to_size);
        add_blocks(std::string("hora_dequantize_") + to + "_" + format, to_size);
      }
      if (to_size == sizeof(double)) continue;
      const std::string sum = std::string("hora_sum_") + to;
      add<cuda::SmallSum>(sum, {to_size, to_size}, fits_sum<cuda::SmallSum>);
      add<cuda::LargeSum>(sum + "_large", {to_size, to_size}, fits_sum<cuda::LargeSum>);
    }
    for (const std::string sum : {"hora_sum_e4m3", "hora_sum_e5m2"}) {
      add<cuda::SmallBlockSum>(sum, {}, fits_block_sum<cuda::SmallBlockSum>);
      add<cuda::LargeBlockSum>(sum + "_large", {}, fits_block_sum<cuda::LargeBlockSum>);
    }
  }

  void* library_ = nullptr;
  RunBlocks run_ = nullptr;
  std::map<std::string, FakeKernel> kernels_;
};

template <int kArchitecture>
const Library& library() {
  static const Library kLibrary(kArchitecture);
  return kLibrary;
}

}  // namespace

const FakeKernel* fake_kernel(int compute_capability, const std::string& name) {
  return compute_capability >= 80 ? library<90>().find(name) : library<75>().find(name);
}

}  // namespace hora
