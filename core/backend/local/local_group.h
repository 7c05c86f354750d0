// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/comm/world.h"

#include <memory>
#include <string>

namespace hora::local {

/// N ranks in one process, each a thread: the job of one rank that runs without a launcher, the reference
/// that other backends are held to, and the bed in which everything above them is tested under
/// ThreadSanitizer. Thread-safe.
class LocalGroup {
 public:
  explicit LocalGroup(int size);
  ~LocalGroup();

  /// A rank's connection to the others. Once per rank. It may outlive the group object.
  World join(int rank);

  /// The others see that `rank` is lost, as when a process dies.
  void lose(int rank, const std::string& how);

 private:
  struct Parts;
  std::shared_ptr<Parts> parts_;
};

}  // namespace hora::local
