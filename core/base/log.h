// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace hora {

enum class LogLevel { error, warning, info, debug };

/// One line to stderr with the time, the rank and the level, in one write. Thread-safe. The caller does not
/// wait for the reader of stderr (core/base/line_writer.h). `set_log` decides which levels appear and which
/// rank they name; without it: warnings, no rank.
void log(LogLevel level, std::string_view message);
void set_log(LogLevel least, int rank);

}  // namespace hora
