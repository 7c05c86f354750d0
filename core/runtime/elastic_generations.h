// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/runtime/formation.h"
#include "core/runtime/generations.h"

#include <memory>

namespace hora {

/// The generations of a process of an elastic job (core/elastic), as hrun chooses them. `settings` has the
/// socket on which hrun tells them (`member_fd`). The process asks to become a member at once. Throws
/// Error(invalid_argument) for a backend whose ranks cannot change, and Error(unavailable).
[[nodiscard]] std::unique_ptr<Generations> make_elastic_generations(const Config& settings,
                                                                    Formation::Connect connect);

}  // namespace hora
