// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace hora::hrun {

/// A wish of the user about the ranks of an elastic job. A value.
struct JobCommand {
  enum class Kind { resize, drain };
  Kind kind = Kind::resize;
  int ranks = 0;     ///< resize: how many the job is to have
  std::string host;  ///< drain: which one all ranks are to leave
};

}  // namespace hora::hrun
