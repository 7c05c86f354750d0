// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/bytes.h"

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace hora {

/// A message of a rank that waits for another one. A value.
struct MessageWait {
  bool sends = false;                 ///< to the peer; else it is to be received from there
  int peer = 0;                       ///< kAnySource: any other rank
  int tag = 0;                        ///< kAnyTag: any
  std::string what;                   ///< "float32[3,4]", "a tensor", "an object"
  std::uint64_t bytes = 0;            ///< 0: not known before it comes, or none
  std::chrono::milliseconds since{};  ///< how long ago it was started
  int process_set = 0;

  bool operator==(const MessageWait&) const = default;
};

/// "receive" or "send"
[[nodiscard]] std::string kind(const MessageWait& wait);
/// "a message from rank 3 with tag 7", "a message to rank 3 with tag 7 in process set 2"
[[nodiscard]] std::string title(const MessageWait& wait);

// How many one report names at the most.
inline constexpr std::size_t kMostWaits = 16;

/// To bytes and back. Encoding shortens long texts; decoding throws Error(internal) for what no rank of a job
/// of this size would send.
[[nodiscard]] Bytes encode(std::span<const MessageWait> waits);
[[nodiscard]] std::vector<MessageWait> decode_waits(std::span<const std::byte> bytes, int size);

}  // namespace hora
