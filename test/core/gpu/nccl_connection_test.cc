// SPDX-License-Identifier: Apache-2.0
#include "core/gpu/nccl_connection.h"

#include "test/support/queued_gpu.h"
#include "test/support/thrown.h"

#include <gtest/gtest.h>

namespace hora {
namespace {

TEST(NcclConnection, IsMadeBesideTheCaller) {
  const auto gpu = make_queued_gpu();
  const auto stream = gpu->make_stream();
  const auto lane = queued_nccl().make_lane(gpu, *stream, {});
  const HeldConnections held;
  NcclConnection connection(*lane, queued_nccl().make_id(), 0, 1);
  EXPECT_FALSE(connection.has_ended());
  connection.check();
  HeldConnections::let_go();
  connection.wait();
  connection.check();
  EXPECT_NE(connection.take(), nullptr);
}

TEST(NcclConnection, EndsWithTheErrorOfTheLane) {
  const auto gpu = make_queued_gpu();
  const auto stream = gpu->make_stream();
  const auto lane = queued_nccl().make_lane(gpu, *stream, {});
  const HeldConnections held;
  const NcclConnection connection(*lane, queued_nccl().make_id(), 0, 1);
  lane->stop({Code::aborted, "the job ends"});
  connection.wait();
  EXPECT_EQ(thrown([&] { connection.check(); }).code, Code::aborted);
}

}  // namespace
}  // namespace hora
