// SPDX-License-Identifier: Apache-2.0
#include "core/gpu/own_gpu.h"

#include "test/support/queued_gpu.h"

#include <hora/hora.h>

#include <gmock/gmock.h>

namespace hora {
namespace {

TEST(OwnGpu, IsNoneUntilItIsAskedFor) { EXPECT_EQ(OwnGpu(0).opened(), nullptr); }

TEST(OwnGpu, SaysWhyThereIsNone) {
  if (gpus() > 0) GTEST_SKIP() << "there is one";
  OwnGpu gpu(0);
  try {
    gpu.open();
    FAIL() << "there is none";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::unavailable);
  }
  EXPECT_EQ(gpu.opened(), nullptr);
}

TEST(OwnGpu, KnowsTheLatestPointOfEachStream) {
  OwnGpu own(1, &queued_nccl());
  const auto gpu = own.open();
  EXPECT_EQ(gpu->index(), 1) << "the local rank's";
  Gate gates[2];
  std::vector<Readiness> all{Readiness{}};
  for (const int gate : {0, 1, 0}) all.push_back(own.mark(*gpu, &gates[gate]));
  std::swap(all[1], all[3]);  // whatever their order
  const auto events = latest(all);
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0], all[1].event);
  EXPECT_EQ(events[1], all[2].event);
  EXPECT_TRUE(latest({Readiness{}}).empty());
}

TEST(OwnGpu, TakesNoTwoPointsForOneStreamWhereEachThreadHasItsOwn) {
  auto* const per_thread = reinterpret_cast<void*>(std::uintptr_t{2});  // cudaStreamPerThread
  const auto gpu = make_queued_gpu();
  const Readiness first{gpu->mark(nullptr), per_thread, 1};
  const Readiness second{gpu->mark(nullptr), per_thread, 2};
  EXPECT_EQ(latest({first, second}), (std::vector{first.event, second.event}));
}

}  // namespace
}  // namespace hora
