// SPDX-License-Identifier: Apache-2.0
#include "runner/horovod/horovod.h"

#include "runner/launch/environment.h"
#include "runner/launch/process.h"

#include <hora/status.h>

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>

namespace hora::hrun {
namespace {

/// Finds the package without importing it.
constexpr const char* kQuestion =
    "import importlib.util, os, sys\n"
    "hora = importlib.util.find_spec('hora')\n"
    "if hora and hora.origin:\n"
    "    sys.stdout.write(os.path.join(os.path.dirname(os.path.abspath(hora.origin)), '_horovod'))\n";

bool is_python(const std::string& path) {
  return std::filesystem::path(path).filename().string().starts_with("python");
}

/// The Python of a script's first line: "#!/opt/bin/python3 -u", "#!/usr/bin/env python3".
std::optional<std::string> python_of_script(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::array<char, 256> start{};
  file.read(start.data(), start.size() - 1);
  std::istringstream line(std::string(start.data()).substr(0, std::string(start.data()).find('\n')));
  if (line.get() != '#' || line.get() != '!') return std::nullopt;
  for (std::string word; line >> word;) {
    if (is_python(word)) return find_program(word);
  }
  return std::nullopt;
}

/// The Python that a program most likely runs in: itself, that of its first line; for a shell script or the
/// like the one beside hrun, where a virtual environment has it, or that in PATH.
std::string python_for(const std::string& program) {
  if (is_python(program)) return program;
  if (auto python = python_of_script(program)) return *std::move(python);
  const auto beside = std::filesystem::read_symlink("/proc/self/exe").replace_filename("python3");
  return ::access(beside.c_str(), X_OK) == 0 ? beside.string() : find_program("python3");
}

std::string ask(const std::string& python, const Options& options) {
  ProcessPlan plan;
  plan.command = {python, "-c", kQuestion};
  plan.environment = job_environment(own_environment(), options.environment);
  Process process = start(plan);
  process.errors = Descriptor();
  std::string answer;
  std::array<char, 4096> part{};
  for (ssize_t n = 0; (n = ::read(process.output.fd(), part.data(), part.size())) > 0;)
    answer.append(part.data(), static_cast<std::size_t>(n));
  ::waitpid(process.pid, nullptr, 0);
  return answer;
}

}  // namespace

std::string find_horovod_folder(const Options& options) {
  const std::string python = python_for(options.command.front());
  std::string folder = ask(python, options);
  if (folder.empty()) {
    throw Error(Code::invalid_argument,
                fmt::format("--horovod: '{}' does not find the package hora; install it there, or say with "
                            "PYTHONPATH where it is",
                            python));
  }
  if (!std::filesystem::is_directory(folder + "/horovod")) {
    throw Error(
        Code::invalid_argument,
        fmt::format("--horovod: the package hora that '{}' finds has no {}; install this version of it there",
                    python, folder));
  }
  return folder;
}

}  // namespace hora::hrun
