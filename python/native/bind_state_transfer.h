// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pybind11/pybind11.h>

namespace hora {

/// Adds to the module how processes that join an elastic training get its state.
void bind_state_transfer(pybind11::module_& module);

}  // namespace hora
