// SPDX-License-Identifier: Apache-2.0
#include "core/backend/cuda/graph_request.h"

#include "core/backend/cuda/gpu.h"
#include "test/support/fake_gpu/captured_graph.h"
#include "test/support/fake_gpu/fake_driver.h"
#include "test/support/fake_gpu/waiting.h"
#include "test/support/thrown.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <set>
#include <thread>

namespace hora::cuda {
namespace {

using testing::HasSubstr;

class GraphRequestTest : public testing::Test {
 protected:
  /// Counts the runs of a graph that have come so far, on that stream.
  static void count_runs(CUstream stream, std::atomic<int>& runs) {
    const CUhostFn add = [](void* counter) { ++*static_cast<std::atomic<int>*>(counter); };
    EXPECT_EQ(::cuLaunchHostFunc(stream, add, &runs), CUDA_SUCCESS);
  }
  static void await_made(const GraphRequest& request) {
    while (!request.is_made()) std::this_thread::yield();
  }
  /// As an operation's end does it.
  void release(const GraphRequest& request) {
    request.release(*own);
    wait_for(own->mark().get());
  }
  void finish(CUstream which) { EXPECT_EQ(::cuStreamSynchronize(which), CUDA_SUCCESS); }

  FakeDriver fake;
  std::shared_ptr<CudaGpu> gpu = open_cuda_gpu(fake.table(), 0);
  const CurrentContext current{*gpu->context()};
  std::unique_ptr<Stream> own = gpu->make_stream();
  CUstream stream = fake.make_stream(0);
};

TEST_F(GraphRequestTest, LetsEachRunOfTheGraphWaitForOneRelease) {
  std::atomic<int> runs{0};
  CapturedGraph graph(stream);
  const auto request = gpu->request_in_graph(stream);
  request->hold_up(stream);
  count_runs(stream, runs);
  graph.end();
  fake.finish(0);
  EXPECT_FALSE(request->is_made()) << "before the graph runs";
  EXPECT_FALSE(fake.spoilt_capture());
  for (int run = 0; run < 3; ++run) {
    graph.run();
    await_made(*request);
    EXPECT_EQ(runs, run);
    release(*request);
    finish(stream);
    EXPECT_EQ(runs, run + 1);
    EXPECT_FALSE(request->is_made());
  }
}

TEST_F(GraphRequestTest, IsMadeAgainOnlyAfterTheRelease) {
  std::atomic<int> runs{0};
  CapturedGraph graph(stream);
  const auto request = gpu->request_in_graph(stream);
  count_runs(stream, runs);
  graph.end();
  graph.run();
  graph.run();
  while (runs < 1) std::this_thread::yield();
  EXPECT_TRUE(request->is_made());
  release(*request);
  finish(stream);
  EXPECT_EQ(runs, 2);
  EXPECT_TRUE(request->is_made());
  release(*request);
}

TEST_F(GraphRequestTest, HoldsUpAnotherStreamOfTheGraph) {
  const CUstream other = fake.make_stream(0);
  CUevent fork = nullptr;
  ASSERT_EQ(::cuEventCreate(&fork, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
  std::atomic<int> runs{0};
  CapturedGraph graph(stream);
  ASSERT_EQ(::cuEventRecord(fork, stream), CUDA_SUCCESS);
  ASSERT_EQ(::cuStreamWaitEvent(other, fork, 0), CUDA_SUCCESS);
  const auto request = gpu->request_in_graph(stream);
  request->hold_up(other);
  count_runs(other, runs);
  graph.end();
  graph.run();
  await_made(*request);
  EXPECT_EQ(runs, 0);
  release(*request);
  finish(stream);
  EXPECT_EQ(runs, 1);
  EXPECT_EQ(::cuEventDestroy(fork), CUDA_SUCCESS);
}

TEST_F(GraphRequestTest, HoldsUpNothingThatIsNotPartOfItsGraph) {
  const CUstream outside = fake.make_stream(0);
  CapturedGraph graph(stream);
  const auto request = gpu->request_in_graph(stream);
  const auto refuses = [&](CUstream which) {
    const Status status = thrown([&] { request->hold_up(which); });
    EXPECT_EQ(status.code, Code::invalid_argument);
    EXPECT_EQ(
        status.message,
        "the operation is part of a CUDA graph: wait for it within the same capture, and before that ends");
  };
  refuses(outside);
  graph.end();
  refuses(stream);
  const CapturedGraph another(outside);
  refuses(outside);
  EXPECT_FALSE(fake.spoilt_capture());
  fake.capture(outside, false);
}

TEST_F(GraphRequestTest, IsOverWhenTheGraphAndItsRunsAreGone) {
  auto graph = std::make_unique<CapturedGraph>(stream);
  const auto request = gpu->request_in_graph(stream);
  request->hold_up(stream);
  graph->end();
  graph->run();
  await_made(*request);
  graph.reset();
  EXPECT_FALSE(request->is_over()) << "a run is under way";
  release(*request);
  finish(stream);
  fake.finish(0);
  while (!request->is_over()) std::this_thread::yield();
}

TEST_F(GraphRequestTest, IsOverWithACaptureThatIsGivenUp) {
  fake.capture(stream, true);
  const auto request = gpu->request_in_graph(stream);
  EXPECT_FALSE(request->is_over());
  fake.capture(stream, false);
  EXPECT_TRUE(request->is_over());
}

TEST_F(GraphRequestTest, SaysWhyItCannotBePutIntoAGraph) {
  Status status = thrown([&] { (void)gpu->request_in_graph(stream); });
  EXPECT_EQ(status.code, Code::invalid_argument);
  EXPECT_EQ(status.message, "the stream is not being captured into a CUDA graph any more");
  fake.capture(stream, true);
  for (const char* call : {"cuMemHostRegister", "cuEventCreate", "cuUserObjectCreate",
                           "cuGraphRetainUserObject", "cuStreamBatchMemOp", "cuEventRecord"}) {
    fake.fail_call(call, 1, CUDA_ERROR_UNKNOWN);
    status = thrown([&] { (void)gpu->request_in_graph(stream); });
    EXPECT_EQ(status.code, Code::internal);
    EXPECT_THAT(status.message, HasSubstr(std::string(call) + " "));
  }
  fake.capture(stream, false);
  EXPECT_EQ(fake.usage(0).events, 0) << "of the failed ones";
}

TEST_F(GraphRequestTest, UsesWordsAgainAndGivesTheirMemoryBack) {
  auto words = std::make_shared<GraphWords>(gpu->context());
  std::set<std::shared_ptr<std::uint32_t>> taken;
  for (int round = 0; round < 3; ++round) {
    taken.clear();
    for (int i = 0; i < 2500; ++i) taken.insert(words->take());
    EXPECT_EQ(taken.size(), 2500U);
    EXPECT_EQ(fake.usage(0).pinned_blocks, 3U) << "pages of 1,024 words";
  }
  words = nullptr;
  EXPECT_EQ(fake.usage(0).pinned_blocks, 3U);
  taken.clear();
  EXPECT_EQ(fake.usage(0).pinned_blocks, 0U);
}

}  // namespace
}  // namespace hora::cuda
