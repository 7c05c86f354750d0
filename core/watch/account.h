// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/bytes.h"

#include <chrono>
#include <cstdint>
#include <span>
#include <string>

namespace hora {

/// The account that a rank gives of itself when others wait for it. A value.
struct Account {
  std::uint64_t finished = 0;              ///< its operations so far
  std::string last;                        ///< the one that it finished last; empty: none
  std::chrono::milliseconds since_last{};  ///< and how long ago that was
  std::string stack;                       ///< of its main thread, as main_thread_stack; empty: not known

  bool operator==(const Account&) const = default;
};

/// "it finished 'grad.6' 61.2 s ago, the 1041st of its operations, and its main thread is at:\n  ..."
[[nodiscard]] std::string describe(const Account& account);

/// The work that a rank is busy with, and for how long from now, so that it is known why the rank is missing.
/// A value.
struct Delay {
  std::string name;
  std::chrono::milliseconds time{};  ///< 0: it is over

  bool operator==(const Delay&) const = default;
};

/// To bytes and back. Encoding shortens long texts; decoding throws Error(internal) for what no rank would
/// send.
[[nodiscard]] Bytes encode(const Account& account);
[[nodiscard]] Account decode_account(std::span<const std::byte> bytes);
[[nodiscard]] Bytes encode(const Delay& delay);
[[nodiscard]] Delay decode_delay(std::span<const std::byte> bytes);

}  // namespace hora
