// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/device/stream.h"

#include <memory>

namespace hora {

/// The CPU: does everything at once, in the caller's thread.
std::unique_ptr<Stream> make_host_stream();

}  // namespace hora
