// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runner/horovod/horovod_flags.h"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace hora::hrun {

/// A setting of a file, as a word of hrun's command line. A value.
struct FileWord {
  std::string flag;   ///< "--num-proc"; "-x" for what stands under `environment`
  std::string word;   ///< "--num-proc=4", "-xNAME=VALUE", "--verbose"
  std::string where;  ///< "file:line: ", for messages
};

/// The settings in a file of --config-file. A value.
struct FileSettings {
  std::vector<FileWord> words;  ///< of hrun's own flags
  HorovodSettings horovods;     ///< what Horovod's tuning flags set
};

/// Whether a flag of hrun's that may stand in a file takes a value; nothing for what is no such flag.
using TakesValue = std::function<std::optional<bool>(const std::string& flag)>;

/// Reads YAML. Keys are the long options of hrun without their dashes, with text, a number, true or false, or
/// a list that is joined by commas; `environment`, with names and values of variables; and Horovod's groups:
/// controller, params, autotune, timeline, stall_check, library_options, logging. Throws
/// Error(invalid_argument) that names the file and the line.
[[nodiscard]] FileSettings parse_config(const std::string& text, const std::string& file,
                                        const TakesValue& takes_value);
[[nodiscard]] FileSettings read_config_file(const std::string& file, const TakesValue& takes_value);

}  // namespace hora::hrun
