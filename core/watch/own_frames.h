// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace hora {

/// The program's own frames of a stack. The stack has a line for each frame, the innermost first, as Python's
/// faulthandler writes them or as main_thread_stack makes them of native ones. The result is such as
/// "train.py:5 in evaluate, called from train.py:7 in <module>". Frames of libraries are left out; of many
/// frames the innermost are told. A stack of libraries alone comes back as it is. A pure function.
[[nodiscard]] std::string own_frames(const std::string& stack);

}  // namespace hora
