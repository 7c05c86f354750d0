// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/fuse/pack.h"
#include "core/negotiate/message.h"
#include "core/watch/recorder.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace hora {

/// An operation as a timeline shows it. A value.
struct Traced {
  Record record;
  int group = kWorld;
  int together = 1;         ///< how many tensors its batch had
  std::vector<Span> spans;  ///< what the batch did, in this order
};

/// The events that one rank saw in some time; they travel to rank 0. A value.
struct TracePart {
  TimePoint now;          ///< on the sender's clock
  std::int64_t wall = 0;  ///< the same moment, nanoseconds since 1970
  std::vector<Traced> operations;
  std::vector<TimePoint> cycles;  ///< when verdicts were heard, if that is wanted
  bool last = false;              ///< this rank traces no more
};

/// To bytes and back. Decoding throws Error(internal) for what no rank would send.
[[nodiscard]] Bytes encode(const TracePart& part);
[[nodiscard]] TracePart decode_trace(std::span<const std::byte> bytes);

}  // namespace hora
