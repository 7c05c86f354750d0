// SPDX-License-Identifier: Apache-2.0
#include "core/base/descriptor.h"

#include <unistd.h>

namespace hora {

Descriptor::~Descriptor() {
  if (fd_ >= 0) ::close(fd_);
}

}  // namespace hora
