// SPDX-License-Identifier: Apache-2.0
#include "runner/agent.h"
#include "runner/job.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <string_view>

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
      return hora::run_agent(STDIN_FILENO, STDOUT_FILENO);
    const auto parsed = hora::parse_options({argv + 1, argv + argc});
    if (parsed.answer) {
      std::fputs(parsed.answer->text.c_str(), parsed.answer->exit_code == 0 ? stdout : stderr);
      return parsed.answer->exit_code;
    }
    return hora::run_job(*parsed.options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "hrun: %s\n", error.what());
    return 1;
  }
}
