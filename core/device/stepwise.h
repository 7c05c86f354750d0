// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/device/kernels.h"

#include <cstddef>
#include <span>
#include <vector>

namespace hora {

/// A reduction in steps: of some ranks' elements first, then of what came out of that. Between the steps it
/// is kept as it is computed (`Reduction`), in float32 for 16-bit types, so that the last step alone rounds
/// to them. Only of floating-point types. Memory must not overlap, except where said so. *One thread.*
class Stepwise {
 public:
  explicit Stepwise(const Reduction& reduction);

  [[nodiscard]] static bool suits(const Reduction& reduction);

  /// Bytes of an element between the steps.
  [[nodiscard]] std::size_t partial_bytes() const { return size_of(partials_.dtype); }

  /// inputs[rank] point to `count` elements each, `partial` to as many as they are between the steps.
  void begin(std::span<const void* const> inputs, void* partial, std::size_t count);
  void go_on(std::span<const void* const> partials, void* partial, std::size_t count);
  /// Every output gets the same bits.
  void end(std::span<const void* const> partials, std::span<void* const> outputs, std::size_t count);

 private:
  [[nodiscard]] bool widens() const { return partials_.dtype != whole_.dtype; }

  Reduction whole_;
  Reduction partials_;  // of what is between the steps, without any factor
  std::vector<std::byte> scratch_;
  std::vector<const void*> widened_;
};

}  // namespace hora
