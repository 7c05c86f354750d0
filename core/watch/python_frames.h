// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace hora {

/// The program's own frames of a stack that Python's faulthandler has written, a line each frame, the
/// innermost first: "train.py:5 in evaluate, called from train.py:7 in <module>". Frames of libraries are
/// left out where there are others; of many frames the innermost are told. Another stack comes back as it is.
/// A pure function.
[[nodiscard]] std::string own_python_frames(const std::string& stack);

}  // namespace hora
