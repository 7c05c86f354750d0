// SPDX-License-Identifier: Apache-2.0
#include "runner/launch/agent.h"
#include "runner/launch/job.h"
#include "runner/launch/mpirun.h"
#include "runner/preflight/probe.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

namespace {

/// Where a standard descriptor is closed, the next pipe would become it, and output would go there.
void open_standard_descriptors() {
  int fd = ::open("/dev/null", O_RDWR);
  while (fd >= STDIN_FILENO && fd <= STDERR_FILENO) fd = ::open("/dev/null", O_RDWR);
  if (fd >= 0) ::close(fd);
}

}  // namespace

int main(int argc, char** argv) {
  open_standard_descriptors();
  try {
    if (argc == 2 && std::string_view(argv[1]) == "--agent")
      return hora::hrun::run_agent(STDIN_FILENO, STDOUT_FILENO);
    const std::vector<std::string> arguments(argv + 1, argv + argc);
    if (const auto exit_code = hora::hrun::run_probe(arguments)) return *exit_code;
    const auto parsed = hora::hrun::parse_options(arguments);
    if (parsed.answer) {
      std::fputs(parsed.answer->text.c_str(), parsed.answer->exit_code == 0 ? stdout : stderr);
      return parsed.answer->exit_code;
    }
    const auto& options = *parsed.options;
    for (const auto& note : options.notes) std::fprintf(stderr, "hrun: %s\n", note.c_str());
    if (!options.hand_over.empty()) hora::hrun::become(options.hand_over, options.hand_over_environment);
    return hora::hrun::run_job(options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "hrun: %s\n", error.what());
    return 1;
  }
}
