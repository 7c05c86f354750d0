// SPDX-License-Identifier: Apache-2.0
#include "runner/job.h"

#include <cstdio>
#include <exception>

int main(int argc, char** argv) {
  try {
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
