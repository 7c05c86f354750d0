// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/runtime/generations.h"

#include <functional>
#include <memory>

namespace hora {

/// The one generation of a job whose ranks never change. `connect` makes its world in `await_next`, and may
/// change the settings that are passed. Throws what `connect` throws.
[[nodiscard]] std::unique_ptr<Generations> make_one_generation(
    const Config& settings, std::function<World(Config& config, TimePoint deadline)> connect);

}  // namespace hora
