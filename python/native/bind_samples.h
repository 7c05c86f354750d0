// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pybind11/pybind11.h>

namespace hora {

/// Adds to the module which samples a rank gets in a training step.
void bind_samples(pybind11::module_& module);

}  // namespace hora
