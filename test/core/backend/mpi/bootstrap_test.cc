// SPDX-License-Identifier: Apache-2.0
#include "core/backend/mpi/bootstrap.h"

#include "core/backend/mpi/session.h"
#include "test/support/mpi_ranks.h"

#include <gmock/gmock.h>

namespace hora::mpi {
namespace {

TimePoint soon() { return Clock::now() + std::chrono::seconds(20); }

TEST(MpiBootstrap, TellsEachRankItsNumbersAndHowToReachRankZero) {
  const auto [membership, started] = bootstrap_by_mpi({}, soon());
  EXPECT_EQ(membership.rank, mpi_rank());
  EXPECT_EQ(membership.size, mpi_ranks());
  EXPECT_EQ(started, mpi_ranks());
  EXPECT_EQ(membership.local_rank, mpi_rank());
  EXPECT_EQ(membership.local_size, mpi_ranks());
  EXPECT_EQ(membership.cross_rank, 0);
  EXPECT_EQ(membership.cross_size, 1);
  EXPECT_EQ(static_cast<bool>(membership.listener), mpi_rank() == 0);
  EXPECT_THAT(membership.coordinator, testing::HasSubstr(":"));
  std::vector<unsigned char> secrets(membership.secret.size() * static_cast<std::size_t>(mpi_ranks()));
  MPI_Allgather(membership.secret.data(), sizeof membership.secret, MPI_BYTE, secrets.data(),
                sizeof membership.secret, MPI_BYTE, MPI_COMM_WORLD);
  for (std::size_t i = 0; i < secrets.size(); ++i)
    EXPECT_EQ(secrets[i], membership.secret[i % membership.secret.size()]);
  EXPECT_NE(membership.secret, Secret{});
}

TEST(MpiBootstrap, KeepsTheSecretOfRankZero) {
  Config config;
  config.secret.fill(static_cast<unsigned char>(mpi_rank() + 1));
  Secret expected;
  expected.fill(1);
  EXPECT_EQ(bootstrap_by_mpi(config, soon()).membership.secret, expected);
}

TEST(MpiBootstrap, NumbersRanksAsTheCommunicatorDoes) {
  MPI_Comm reversed = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, mpi_rank() % 2, -mpi_rank(), &reversed);
  Config config;
  config.mpi_communicator = MPI_Comm_c2f(reversed);
  const auto [membership, started] = bootstrap_by_mpi(config, soon());
  const int others = (mpi_ranks() - mpi_rank() + 1) / 2;  // from this one on
  EXPECT_EQ(membership.rank, others - 1);
  EXPECT_EQ(membership.size, (mpi_ranks() + 1 - mpi_rank() % 2) / 2);
  EXPECT_EQ(started, mpi_ranks());
  MPI_Comm_free(&reversed);
}

TEST(MpiBootstrap, RefusesWhatIsNoCommunicator) {
  for (const int number : {MPI_Comm_c2f(MPI_COMM_NULL), 12345, -7}) {
    Config config;
    config.mpi_communicator = number;
    try {
      static_cast<void>(bootstrap_by_mpi(config, soon()));
      FAIL() << number;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::invalid_argument);
      EXPECT_THAT(error.what(), testing::HasSubstr("is no communicator of "));
    }
  }
}

TEST(MpiBootstrap, WhatRankZeroCannotDoFailsEverywhere) {
  Config config;
  config.network = "no-such-interface";
  try {
    static_cast<void>(bootstrap_by_mpi(config, soon()));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::invalid_argument);
    EXPECT_THAT(error.what(), testing::HasSubstr("no-such-interface"));
    EXPECT_THAT(error.what(), testing::StartsWith("rank 0: "));
  }
}

}  // namespace
}  // namespace hora::mpi
