// SPDX-License-Identifier: Apache-2.0
// What needs no hrun of its own; test/job has the rest.
#include "runner/job.h"

#include <hora/status.h>

#include <gtest/gtest.h>

namespace hora {
namespace {

TEST(RunJob, SaysWhereOutputCannotBeWritten) {
  Options options;
  options.ranks = 1;
  options.shares = place({{"localhost", 1}}, 1, false);
  options.command = {"/bin/true"};
  options.output_directory = "/proc/nonexistent";
  EXPECT_EXIT(
      {
        try {
          run_job(options);
        } catch (const Error& error) {
          std::fprintf(stderr, "%s\n", error.what());
          std::_Exit(1);
        }
        std::_Exit(0);
      },
      testing::ExitedWithCode(1), "cannot make the directory /proc/nonexistent");
}

}  // namespace
}  // namespace hora
