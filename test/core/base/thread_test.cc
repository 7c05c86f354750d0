// SPDX-License-Identifier: Apache-2.0
#include "core/base/thread.h"

#include <hora/status.h>

#include <gtest/gtest.h>

namespace hora {
namespace {

TEST(StartThread, RunsTheWork) {
  bool done = false;
  start_thread("tests", [&] { done = true; }).join();
  EXPECT_TRUE(done);
}

TEST(StartThread, SaysWhatItWasForAndWhichLimitsAreLikelyWhereTheSystemHasNone) {
  try {
    throw_no_thread("runs operations", std::make_error_code(std::errc::resource_unavailable_try_again));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(
        error.status(),
        (Status{Code::unavailable,
                "the thread that runs operations cannot be started: Resource temporarily unavailable; it "
                "needs memory for its stack (ulimit -v, the limit of the container), and a process to "
                "count as (ulimit -u, pids.max)"}));
  }
}

}  // namespace
}  // namespace hora
