// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>

namespace hora::nccl {

/// Has a call made that may never return, in a thread of its own, and waits for so long. False: it has not
/// returned, and the thread stays behind with it; what it touches belongs to the thread, which nobody waits
/// for. It must not throw, and has shares in all that it touches. Throws std::system_error without a thread.
[[nodiscard]] bool returns_within(std::chrono::milliseconds most, std::function<void()> call);

}  // namespace hora::nccl
