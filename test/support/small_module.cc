// SPDX-License-Identifier: Apache-2.0
// A module for module_test.cc.
#include "core/backend/module.h"

extern "C" const hora::ModuleFace* hora_module() {
  static constexpr hora::ModuleFace kFace{HORA_VERSION, "at your service"};
  return &kFace;
}
