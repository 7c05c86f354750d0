// SPDX-License-Identifier: Apache-2.0
#include "test/support/fake_gpu/fake_kernels.h"

namespace hora {

const std::map<std::string, FakeKernel>& fake_kernels() {
  static const std::map<std::string, FakeKernel> kernels;
  return kernels;
}

}  // namespace hora
