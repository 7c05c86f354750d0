// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/comm/collective.h"
#include "core/device/stream.h"

#include <memory>

namespace hora {

/// One device's way to the other ranks: where its work is ordered, and how its buffers move.
struct Lane {
  std::shared_ptr<Stream> stream;  ///< of a GPU: the one of all lanes there
  std::unique_ptr<Collective> collective;
  /// Whether packed pieces travel as one, which is multiplied with its factor on the way in, as a GPU's calls
  /// and passes cost much. So all ranks pack the same. Else each piece goes from where it lies, or was packed
  /// to.
  bool fuses = false;
};

}  // namespace hora
