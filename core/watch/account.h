// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/bytes.h"

#include <chrono>
#include <cstdint>
#include <span>
#include <string>

namespace hora {

/// The report that a rank gives of itself to rank 0 when other ranks wait for it. A value.
struct Account {
  std::uint64_t finished = 0;              ///< the number of operations that it has finished
  std::string last;                        ///< the name of the last one; empty: none
  std::chrono::milliseconds since_last{};  ///< the time since its end
  std::string stack;                       ///< of the main thread (`main_thread_stack`); empty: not known

  bool operator==(const Account&) const = default;
};

/// "it finished 'grad.6' 61.2 s ago, the 1041st of its operations, and its main thread is at:\n  ..."
[[nodiscard]] std::string describe(const Account& account);

/// The announcement of a rank that it will be late (Runtime::expect_delay). A value.
struct Delay {
  std::string name;                  ///< of the work that it does meanwhile, for messages
  std::chrono::milliseconds time{};  ///< from now on; 0: the work is done

  bool operator==(const Delay&) const = default;
};

/// To bytes and back. Encoding cuts the stack and the name of a delay to a limit. Decoding throws
/// Error(internal) for bytes that no encoding makes.
[[nodiscard]] Bytes encode(const Account& account);
[[nodiscard]] Account decode_account(std::span<const std::byte> bytes);
[[nodiscard]] Bytes encode(const Delay& delay);
[[nodiscard]] Delay decode_delay(std::span<const std::byte> bytes);

}  // namespace hora
