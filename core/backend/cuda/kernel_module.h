// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/cuda/primary_ctx.h"

#include <hora/dtype.h>

#include <array>
#include <cstdint>
#include <memory>

namespace hora::cuda {

/// The kernels of kernels.cu, on one GPU. Thread-safe.
class KernelModule {
 public:
  /// Throws Error(unavailable) if they were not built for a GPU of this kind, Error(internal).
  explicit KernelModule(std::shared_ptr<const PrimaryContext> context);
  ~KernelModule();
  KernelModule(const KernelModule&) = delete;
  KernelModule& operator=(const KernelModule&) = delete;

  /// Whether the ones that take large tables can be used.
  [[nodiscard]] bool has_large() const { return large_; }
  [[nodiscard]] std::uint32_t multiprocessors() const { return multiprocessors_; }

  // Those that take large tables are asked for with `large`.

  [[nodiscard]] CUfunction copy(bool large) const;
  /// Between two floats.
  [[nodiscard]] CUfunction move(DType to, DType from, bool large) const;
  /// Of floats of 16 and 32 bits.
  [[nodiscard]] CUfunction sum(DType dtype, bool large) const;
  /// Blocks of this format (`is_block_float`) of a float, and the other way; and their sum.
  [[nodiscard]] CUfunction quantize(DType format, DType from, bool large) const;
  [[nodiscard]] CUfunction dequantize(DType to, DType format, bool large) const;
  [[nodiscard]] CUfunction sum_blocks(DType format, bool large) const;

 private:
  static constexpr std::size_t kFloats = 4;
  /// Of each kernel the one for small tables, and the one for large ones.
  using Pair = std::array<CUfunction, 2>;

  void load();
  void find_all();
  [[nodiscard]] Pair find(const std::string& name) const;

  const std::shared_ptr<const PrimaryContext> context_;
  CUmodule module_ = nullptr;
  bool large_ = false;
  std::uint32_t multiprocessors_ = 0;
  Pair copy_{};
  std::array<std::array<Pair, kFloats>, kFloats> move_{};
  std::array<Pair, kFloats> sum_{};
  /// Those of a format of blocks.
  struct OfBlocks {
    std::array<Pair, kFloats> quantize;
    std::array<Pair, kFloats> dequantize;
    Pair sum;
  };
  std::array<OfBlocks, 2> blocks_{};
};

}  // namespace hora::cuda
