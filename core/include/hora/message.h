// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <hora/dtype.h>

#include <cstdint>
#include <vector>

namespace hora {

/// `receive` and `probe`: from whichever rank, with whichever tag.
inline constexpr int kAnySource = -1;
inline constexpr int kAnyTag = -1;
/// In place of the number of a process set: the message has the state that ranks give to others which join an
/// elastic training.
inline constexpr int kStateMessages = -1;

/// The source, tag, dtype and shape of a message. A value.
struct Envelope {
  int source = 0;  ///< the rank that sent it
  int tag = 0;     ///< chosen by the sender, from 0
  DType dtype = DType::uint8;
  std::vector<std::int64_t> shape;  ///< elements per dimension; empty: a scalar
  bool object = false;              ///< see Message
  int process_set = 0;
  bool operator==(const Envelope&) const = default;
};

}  // namespace hora
