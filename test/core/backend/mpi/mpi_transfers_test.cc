// SPDX-License-Identifier: Apache-2.0
#include "core/backend/mpi/mpi_transfers.h"

#include "test/support/mpi_ranks.h"

#include <gmock/gmock.h>

#include <chrono>
#include <numeric>
#include <thread>

namespace hora::mpi {
namespace {

// Ranks 0 and 1 do something; any other ranks do nothing.
class MpiTransfersTest : public testing::Test {
 protected:
  void SetUp() override {
    if (mpi_ranks() < 2) GTEST_SKIP() << "one rank sends no messages";
  }
  Channel channel_{enter_mpi(), duplicate_world(), 1000};
};

TEST_F(MpiTransfersTest, LongOnesGoInPiecesAndArriveInOrder) {
  if (mpi_rank() > 1) return;
  for (const std::size_t bytes : {0, 1, 1000, 1001, 123456}) {
    std::vector<std::uint8_t> out(bytes);
    std::iota(out.begin(), out.end(), static_cast<std::uint8_t>(mpi_rank()));
    std::vector<std::uint8_t> in(bytes);
    MpiTransfers messages(channel_);
    messages.receive(1 - mpi_rank(), in.data(), bytes);
    messages.send(1 - mpi_rank(), out.data(), bytes);
    messages.wait();
    std::iota(out.begin(), out.end(), static_cast<std::uint8_t>(1 - mpi_rank()));
    EXPECT_TRUE(in == out) << bytes;
  }
}

TEST_F(MpiTransfersTest, OneOfAnotherLengthIsAnError) {
  std::vector<std::byte> data(500);
  for (const std::size_t sent : {300, 500}) {
    if (mpi_rank() > 1) return;
    MpiTransfers messages(channel_);
    if (mpi_rank() == 0) {
      messages.send(1, data.data(), sent);
      messages.wait();
      continue;
    }
    messages.receive(0, data.data(), 400);
    try {
      messages.wait();
      FAIL();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::internal);
      EXPECT_THAT(error.what(), testing::HasSubstr("400 bytes were expected, and "));
    }
  }
}

TEST_F(MpiTransfersTest, AnAbortEndsAWaitAndAllThatFollow) {
  const Status why{Code::aborted, "rank 7 is gone"};
  int never = 0;
  MpiTransfers messages(channel_);
  messages.receive((mpi_rank() + 1) % mpi_ranks(), &never, sizeof never);
  const std::jthread control([&] { channel_.abort(why); });
  for (int attempt = 0; attempt < 2; ++attempt) {
    try {
      messages.wait();
      FAIL();
    } catch (const Error& error) {
      EXPECT_EQ(error.status(), why);
    }
  }
  EXPECT_THROW(channel_.check(), Error);
}

}  // namespace
}  // namespace hora::mpi
