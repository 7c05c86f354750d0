// SPDX-License-Identifier: Apache-2.0
// Messages whose bytes tell which is which.
#pragma once

#include "core/base/bytes.h"

namespace hora::tcp {

inline Bytes bytes_of(std::size_t count, int first) {
  Bytes bytes(count);
  for (auto& byte : bytes) byte = static_cast<std::byte>(first++);
  return bytes;
}

}  // namespace hora::tcp
