// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace hora {

enum class LogLevel { error, warning, info, debug };

/// Writes one line to stderr, with the time, the rank and the level. The caller does not wait for the reader
/// of stderr (core/base/line_writer.h). Thread-safe.
void log(LogLevel level, std::string_view message);
/// Sets the least severe level that is written, by its name ("warning"), and the rank that lines name
/// (negative: none), for the whole process. At first: warnings and errors, no rank. Thread-safe.
void set_log(std::string_view least, int rank);

}  // namespace hora
