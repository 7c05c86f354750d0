// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <hora/config.h>

#include <string>

namespace hora {

/// The secret of one job, made of a file that its ranks can read on all hosts and nobody else can: at least
/// 32 bytes, for its owner alone. Jobs of other names get other secrets of the same file, and none of them
/// tells what is in it. Throws Error(invalid_argument) that names the file, what is wrong with it and how to
/// put it right.
[[nodiscard]] Secret secret_from_file(const std::string& path, const std::string& job);

/// The words that make such a file, for messages.
[[nodiscard]] const char* how_to_make_a_secret();

}  // namespace hora
