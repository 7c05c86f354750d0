// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <system_error>
#include <thread>
#include <utility>

namespace hora {

/// Throws Error(unavailable): what the thread was for, why the system has refused it, and which limits are
/// likely.
[[noreturn]] void throw_no_thread(const char* purpose, const std::error_code& why);

/// Starts a thread of Hora's own. `purpose`: what it does, for the error, as it follows "the thread that ".
/// Throws Error(unavailable) if the system has none left.
template <typename Work>
[[nodiscard]] std::thread start_thread(const char* purpose, Work work) {
  try {
    return std::thread(std::move(work));
  } catch (const std::system_error& error) {
    throw_no_thread(purpose, error.code());
  }
}

}  // namespace hora
