// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/socket_io.h"

namespace hora::hrun {

/// A free port of this machine that is kept for a program of the job, on all addresses. Here it is bound, and
/// no process listens, so that no other program gets it by chance. A program that binds it by its number and
/// with SO_REUSEADDR, as torch.distributed does, may listen there at once, and again and again.
class ReservedPort {
 public:
  /// Throws Error(unavailable).
  ReservedPort();

  [[nodiscard]] int number() const { return number_; }

 private:
  Descriptor socket_;
  int number_ = 0;
};

}  // namespace hora::hrun
