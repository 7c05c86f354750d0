// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <hora/status.h>

#include <functional>

namespace hora {

/// The error that a call throws: its code and text, or nothing.
inline Status thrown(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.status();
  }
  return {};
}

}  // namespace hora
