// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runner/command_line/options.h"

#include <string>

namespace hora::hrun {

/// The folder that makes `import horovod` mean Hora for Python programs that have it in PYTHONPATH. It is
/// part of the package `hora` of the Python that runs the program; that Python is asked where. Throws
/// Error(invalid_argument) that says which Python has no such package.
[[nodiscard]] std::string find_horovod_folder(const Options& options);

}  // namespace hora::hrun
