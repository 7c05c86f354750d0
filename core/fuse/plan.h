// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/negotiate/message.h"

#include <hora/config.h>

#include <cstddef>
#include <span>
#include <vector>

namespace hora {

/// Decisions that travel together: indices into those of the verdict, in its order. A value.
struct Batch {
  std::vector<std::size_t> decisions;

  bool operator==(const Batch&) const = default;
};

/// The bytes that an entry takes in a wire buffer: its elements in the wire dtype, with scales if they travel
/// in blocks, rounded up to whole cache lines.
[[nodiscard]] std::size_t wire_bytes(const Request& request);

/// Those of a batch.
[[nodiscard]] std::size_t wire_bytes(std::span<const Decision> decisions, const Batch& batch);

/// The most bytes that travel together, by where tensors lie; at first, where nobody has said. A value.
struct FusionThresholds {
  std::size_t host = std::size_t{4} << 20;  // what is packed should still be in a cache when it is reduced
  std::size_t cuda = std::size_t{32} << 20;
};

/// Those that a job begins with.
[[nodiscard]] FusionThresholds first_thresholds(const Config& config);

/// Puts decisions that are ok into batches, the same on every rank. Allreduces of one kind (dtype, wire,
/// reduction, factors, device), and broadcasts of one kind (root, device), travel together up to their
/// threshold. They do so also when others stand between them; everything else travels alone. A batch is
/// carried out when its first decision is due. A pure function.
[[nodiscard]] std::vector<Batch> plan(std::span<const Decision> decisions,
                                      const FusionThresholds& thresholds);

}  // namespace hora
