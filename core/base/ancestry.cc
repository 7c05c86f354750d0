// SPDX-License-Identifier: Apache-2.0
#include "core/base/ancestry.h"

#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>

namespace hora {
namespace {

constexpr int kMostGenerations = 64;

std::string contents(int pid, const char* name) {
  std::ifstream file(fmt::format("/proc/{}/{}", pid, name), std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// The parent and the start of a process, from /proc/<pid>/stat.
struct Birth {
  int parent = 0;
  std::string start;  ///< clock ticks since the machine's
};

std::optional<Birth> birth_of(int pid) {
  const std::string line = contents(pid, "stat");
  const auto name_ends = line.rfind(')');  // a name may contain anything
  if (name_ends == std::string::npos) return std::nullopt;
  std::istringstream rest(line.substr(name_ends + 1));
  constexpr std::size_t kParent = 1;  // counted from the state, which follows the name
  constexpr std::size_t kStart = 19;
  std::array<std::string, kStart + 1> fields;
  for (auto& field : fields) {
    if (!(rest >> field)) return std::nullopt;
  }
  return Birth{std::stoi(fields[kParent]), fields[kStart]};
}

bool has(const std::string& environment, const std::string& variable) {
  return ('\0' + environment).find('\0' + variable + '=') != std::string::npos;
}

}  // namespace

std::string ancestor_without(const std::string& variable, int pid) {
  auto birth = birth_of(pid);
  for (int generation = 0; birth && birth->parent > 0 && generation < kMostGenerations; ++generation) {
    pid = birth->parent;
    birth = birth_of(pid);
    if (birth && !has(contents(pid, "environ"), variable)) return fmt::format("{}.{}", pid, birth->start);
  }
  return "";
}

}  // namespace hora
