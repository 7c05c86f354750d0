// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/comm/collective.h"
#include "core/comm/world.h"

#include <hora/config.h>

#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace hora {

/// Whether a backend can be used on this machine.
struct BackendStatus {
  bool available = false;
  std::string text;  ///< a line for a person: what is there, or what is missing
};

/// A way to move tensors in host memory between ranks. HORA_CPU_OPERATIONS chooses one by its name.
struct Backend {
  std::string_view name;
  /// Checks whether this machine and this build have what the backend needs. Makes no connection and starts
  /// nothing.
  BackendStatus (*look)();
  /// Makes the collective of all ranks of `world`, which already has its control and its members. May add a
  /// readiness vote to `world`. All ranks call it. Throws Error(unavailable), Error(invalid_argument), or
  /// Error(timeout) at the deadline.
  std::unique_ptr<Collective> (*connect)(World& world, const Config& config, TimePoint deadline);
};

/// The backends of this build, in the order in which `hrun --check-build` shows them.
[[nodiscard]] std::span<const Backend> backends();

/// The function that HORA_CPU_OPERATIONS chooses: `auto`, or a backend's `connect`. `auto` uses shared memory
/// between ranks of one host and sockets between hosts. Throws Error(invalid_argument) for an unknown name.
[[nodiscard]] decltype(Backend::connect) backend_of(const Config& config);

}  // namespace hora
