// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/device/kernels.h"

#include <cstddef>
#include <span>
#include <vector>

namespace hora {

/// A reduction in several steps: `begin` reduces inputs to a partial result, `go_on` reduces partial results
/// to one, and `end` makes outputs of partial results. Partial results of 16-bit floats are float32, so only
/// `end` rounds. `begin` applies the prescale; `end`, the postscale and the divisor. Memory must not overlap.
/// *One thread.*
class Stepwise {
 public:
  explicit Stepwise(const Reduction& reduction);

  /// Whether a reduction can be done so: its dtype must be a float.
  [[nodiscard]] static bool suits(const Reduction& reduction);

  /// Bytes of an element of a partial result.
  [[nodiscard]] std::size_t partial_bytes() const { return size_of(partials_.dtype); }

  /// Each of `inputs` points to `count` elements of the reduction's dtype, and `partial` to room for `count`
  /// elements of `partial_bytes` each. So do `partials` below.
  void begin(std::span<const void* const> inputs, void* partial, std::size_t count);
  void go_on(std::span<const void* const> partials, void* partial, std::size_t count);
  /// Writes the result to every output, the same bits to each, in the reduction's dtype.
  void end(std::span<const void* const> partials, std::span<void* const> outputs, std::size_t count);

 private:
  [[nodiscard]] bool widens() const { return partials_.dtype != whole_.dtype; }

  Reduction whole_;
  Reduction partials_;  // of partial results, without any factor
  std::vector<std::byte> scratch_;
  std::vector<const void*> widened_;
};

}  // namespace hora
