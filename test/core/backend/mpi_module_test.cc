// SPDX-License-Identifier: Apache-2.0
#include "core/backend/mpi_module.h"

#include <gmock/gmock.h>

namespace hora {
namespace {

TEST(LoadMpi, GivesItsFunctionsOrSaysHowToGetIt) {
  try {
    const MpiModule& mpi = load_mpi();
    EXPECT_THAT(mpi.library(), testing::HasSubstr("MPI"));
    EXPECT_FALSE(mpi.any_thread()) << "nobody has started it";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::unavailable);
    EXPECT_THAT(error.what(), testing::HasSubstr("libopenmpi-dev"));
  }
}

}  // namespace
}  // namespace hora
