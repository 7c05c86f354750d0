// SPDX-License-Identifier: Apache-2.0
#include "runner/streams/rank_file.h"

#include "core/base/folder.h"
#include "runner/launch/process.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>

namespace hora::hrun {

void make_directory(const std::string& path) {
  if (::mkdir(path.c_str(), 0777) != 0 && errno != EEXIST)
    fail(fmt::format("cannot make the directory {}", path));
}

RankFile::RankFile(const std::string& directory, const char* name)
    : path_(fmt::format("{}/{}", directory, name)) {
  make_directory(directory);
  file_ = Folder::named(directory).create(name);
  if (!file_) fail(fmt::format("cannot write {}", path_));
}

std::string RankFile::write(std::string_view bytes) {
  if (!file_.is_open()) return "";
  if (file_.write(bytes.data(), static_cast<std::streamsize>(bytes.size())).flush()) return "";
  std::string trouble = fmt::format("cannot write {} any further: {}", path_, std::strerror(errno));
  file_.close();
  return trouble;
}

}  // namespace hora::hrun
