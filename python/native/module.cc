// SPDX-License-Identifier: Apache-2.0
#include "python/native/bind_hora.h"
#include "python/native/bind_rounds.h"
#include "python/native/bind_samples.h"
#include "python/native/bind_state_transfer.h"

PYBIND11_MODULE(_native, module) {
  module.doc() = "The native part of hora: pointers, not tensors. Use the package instead.";
  hora::bind_hora(module);
  hora::bind_rounds(module);
  hora::bind_samples(module);
  hora::bind_state_transfer(module);
}
