// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <hora/status.h>

#include <exception>

namespace hora {

/// The status of an Error. Any other exception, such as one of a user's callback, becomes Code::internal with
/// its text.
[[nodiscard]] inline Status status_of(const std::exception& error) {
  const auto* ours = dynamic_cast<const Error*>(&error);
  return ours != nullptr ? ours->status() : Status{Code::internal, error.what()};
}

}  // namespace hora
