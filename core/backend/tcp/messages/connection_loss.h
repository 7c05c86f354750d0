// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/clock.h"
#include "core/comm/control.h"

#include <hora/status.h>

#include <fmt/format.h>

namespace hora::tcp {

/// The loss of a connection for messages. It may be the end of its rank, which control explains better
/// (Messenger::abort). So the operations that depend on the connection fail only when control has had the
/// time to do so. A value.
struct ConnectionLoss {
  ConnectionLoss(int peer, const Error& error)
      : why{Code::aborted,
            fmt::format("the connection for messages with rank {} broke: {}", peer, error.what())} {}

  Status why;
  TimePoint when = Clock::now();
  bool told = false;  ///< to the operations that depended on the connection

  /// When those operations are to be told. Never again if they have been.
  [[nodiscard]] TimePoint due() const { return told ? TimePoint::max() : when + kUntilControlTells; }
};

}  // namespace hora::tcp
