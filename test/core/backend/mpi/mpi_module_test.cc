// SPDX-License-Identifier: Apache-2.0
#include "core/backend/mpi_module.h"

#include "core/backend/mpi/session.h"
#include "test/support/mpi_ranks.h"

#include <gtest/gtest.h>

namespace hora::mpi {
namespace {

TEST(MpiModule, UsesTheSameMpiAsTheProgram) {
  static_cast<void>(mpi_rank());
  EXPECT_EQ(load_mpi().library(), library_name());
  EXPECT_TRUE(load_mpi().any_thread());
}

TEST(MpiModule, SaysWhereItIs) { EXPECT_TRUE(mpi_module_path().ends_with("/libhora_mpi.so")); }

}  // namespace
}  // namespace hora::mpi
