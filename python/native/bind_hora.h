// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pybind11/pybind11.h>

namespace hora {

/// The names of <hora/hora.h>, for hora/ to build on.
void bind_hora(pybind11::module_& module);

}  // namespace hora
