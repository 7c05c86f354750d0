// SPDX-License-Identifier: Apache-2.0
#include "core/backend/mpi/mpi_collective.h"
#include "test/support/local_job.h"
#include "test/support/mpi_ranks.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <string>

namespace hora::mpi {
namespace {

Config config_of(const std::string& cpu_operations) {
  Config config;
  config.mpi_communicator = MPI_Comm_c2f(MPI_COMM_WORLD);
  config.cpu_operations = cpu_operations;
  config.log_level = "error";
  return config;
}

float sum_over_ranks(Runtime& runtime, int process_set, int number) {
  std::vector<float> data(50'000, static_cast<float>(number));
  Entry entry = in_place(Operation::allreduce, "x", DType::float32, data);
  entry.process_set = process_set;
  runtime.submit(entry).wait();
  return data.back();
}

TEST(ConnectMpi, RunsJobsOverMpiOneAfterTheOther) {
  for (int job = 0; job < 3; ++job) {
    Runtime runtime(config_of("mpi"));
    EXPECT_EQ(runtime.rank(), mpi_rank());
    EXPECT_EQ(runtime.local_size(), mpi_ranks());
    const int ranks = runtime.size();
    EXPECT_EQ(sum_over_ranks(runtime, 0, mpi_rank() + 1), static_cast<float>(ranks * (ranks + 1) / 2));
  }
}

TEST(ConnectMpi, MeetsForOtherDataPlanes) {
  for (const char* operations : {"auto", "tcp"}) {
    Runtime runtime(config_of(operations));
    EXPECT_EQ(sum_over_ranks(runtime, 0, 2), static_cast<float>(2 * mpi_ranks()));
  }
}

TEST(ConnectMpi, RefusesRanksThatMpiHasNotStarted) {
  for (const bool in_the_environment : {false, true}) {
    Config config = config_of("auto");
    if (in_the_environment) {
      ::setenv("HORA_SIZE", std::to_string(mpi_ranks() + 3).c_str(), 1);
    } else {
      config.size = mpi_ranks() + 3;
    }
    try {
      const Runtime runtime(config);
      FAIL();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::invalid_argument);
      EXPECT_THAT(error.what(), testing::HasSubstr("hrun --mpi"));
    }
    ::unsetenv("HORA_SIZE");
  }
}

TEST(ConnectMpi, MakesProcessSets) {
  if (mpi_ranks() < 3) GTEST_SKIP() << "needs three ranks";
  Runtime runtime(config_of("mpi"));
  const int outer = runtime.add_process_set({0, 2});
  const int inner = runtime.add_process_set({1, 2});
  if (mpi_rank() == 0 || mpi_rank() == 2) {
    EXPECT_EQ(sum_over_ranks(runtime, outer, mpi_rank() + 1), 4.0F);
  }
  if (mpi_rank() == 1 || mpi_rank() == 2) {
    EXPECT_EQ(sum_over_ranks(runtime, inner, mpi_rank() + 1), 5.0F);
  }
}

TEST(ConnectMpi, RunsSeveralJobsSideBySideInCommunicatorsOfTheProgram) {
  MPI_Comm half = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, mpi_rank() % 2, -mpi_rank(), &half);
  {
    Config config = config_of("mpi");
    config.mpi_communicator = MPI_Comm_c2f(half);
    Runtime runtime(config);
    EXPECT_EQ(sum_over_ranks(runtime, 0, 1), static_cast<float>(runtime.size()));
    EXPECT_EQ(runtime.size(), (mpi_ranks() + 1 - mpi_rank() % 2) / 2);
  }
  MPI_Comm_free(&half);
}

TEST(ConnectMpi, WhatARankFailsWithReachesTheOthers) {
  if (mpi_ranks() == 1) GTEST_SKIP() << "there are no others";
  Runtime runtime(config_of("mpi"));
  if (mpi_rank() == mpi_ranks() - 1) {
    runtime.shutdown("it ran out of data");
    return;
  }
  try {
    for (;;) sum_over_ranks(runtime, 0, 1);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::aborted);
    EXPECT_THAT(error.what(), testing::HasSubstr("it ran out of data"));
  }
}

}  // namespace
}  // namespace hora::mpi
