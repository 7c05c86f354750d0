// SPDX-License-Identifier: Apache-2.0
#include "core/device/await.h"

#include "core/base/clock.h"

#include <algorithm>
#include <chrono>
#include <thread>

namespace hora {

void await(const Event* event, const std::function<void()>& check) {
  using Microseconds = std::chrono::microseconds;
  const auto began = Clock::now();
  while (event != nullptr) {
    check();
    if (event->reached()) return;
    const auto waited = std::chrono::duration_cast<Microseconds>(Clock::now() - began);
    std::this_thread::sleep_for(std::clamp(waited / 8, Microseconds(10), Microseconds(1000)));
  }
}

}  // namespace hora
