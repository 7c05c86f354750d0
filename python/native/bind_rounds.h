// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pybind11/pybind11.h>

namespace hora {

/// Adds the rounds of a DistributedOptimizer to the module. The interpreter lock is held in every call, and
/// so each is made after the other.
void bind_rounds(pybind11::module_& module);

}  // namespace hora
