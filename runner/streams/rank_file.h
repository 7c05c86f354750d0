// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fstream>
#include <string>
#include <string_view>

namespace hora::hrun {

/// Makes the directory if it is missing. Throws Error(unavailable) with the path and the system's reason.
void make_directory(const std::string& path);

/// The file for one output of one rank (--output-filename), or none. Moves.
class RankFile {
 public:
  /// None: it takes everything, and keeps nothing.
  RankFile() = default;
  /// Makes the directory and the file. Throws Error(unavailable) if it cannot be written.
  RankFile(const std::string& directory, const char* name);

  /// Returns why the bytes cannot be written, as a sentence for the user, and empty if they were. After one
  /// failure nothing more is written or said.
  [[nodiscard]] std::string write(std::string_view bytes);

 private:
  std::string path_;
  std::ofstream file_;
};

}  // namespace hora::hrun
