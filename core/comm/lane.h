// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/comm/collective.h"
#include "core/device/stream.h"

#include <memory>

namespace hora {

/// The way of one device's tensors to the other ranks: the stream that orders the work, and the collective
/// that moves the data.
struct Lane {
  std::shared_ptr<Stream> stream;  ///< of a GPU: the one of all lanes there
  std::unique_ptr<Collective> collective;
  /// True on GPUs, where each call and each pass over memory costs much. Then small pieces are packed into
  /// one segment, and all ranks must pack the same pieces. The factor of a sum of floats is applied during
  /// packing; every other factor is left to the collective. False: each piece is a segment of its own, and
  /// the collective applies all factors. See Packer.
  bool fuses = false;
};

}  // namespace hora
