// SPDX-License-Identifier: Apache-2.0
#include "core/backend/mpi/session.h"

#include "test/support/mpi_ranks.h"

#include <hora/status.h>

#include <gmock/gmock.h>

namespace hora::mpi {
namespace {

TEST(Session, LeavesMpiToTheProgramThatHasStartedIt) {
  static_cast<void>(enter_mpi());  // and ends at once
  EXPECT_TRUE(mpi_runs());
  EXPECT_EQ(thread_level(), MPI_THREAD_MULTIPLE);
}

TEST(Session, KnowsItsLibraryWithoutTheNamesOfThoseWhoBuiltIt) {
  EXPECT_THAT(library_name(), testing::HasSubstr("MPI"));
  EXPECT_THAT(library_name(), testing::Not(testing::HasSubstr("package")));
}

TEST(Session, TellsWhatMpiSaysOfAnError) {
  EXPECT_NO_THROW(check_mpi(MPI_SUCCESS, "MPI_Send"));
  try {
    check_mpi(MPI_ERR_RANK, "MPI_Send");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::aborted);
    EXPECT_THAT(error.what(), testing::StartsWith("MPI_Send failed: MPI_ERR_RANK"));
  }
}

}  // namespace
}  // namespace hora::mpi
