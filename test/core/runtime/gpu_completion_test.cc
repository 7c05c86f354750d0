// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/gpu_completion.h"

#include "core/backend/local/local_group.h"
#include "test/support/queued_gpu.h"

#include <gtest/gtest.h>

namespace hora {
namespace {

class GpuCompletionTest : public testing::Test {
 protected:
  /// A batch of one tensor "x" whose input is there when the gate is open, and its handle.
  Handle begin(RunningBatch& batch) {
    Entry entry;
    entry.name = "x";
    decision_.request.name = "x";
    Handle handle =
        table_.put(std::move(entry), {kWorld, decision_.request, {gpu_->mark(&gate_), nullptr, 1}}, {});
    batch.items.push_back({&decision_, *table_.take(kWorld, "x"), {}});
    return handle;
  }

  Gate gate_;
  std::shared_ptr<Gpu> gpu_ = make_queued_gpu();
  local::LocalGroup group_{1};
  World world_ = group_.join(0);
  Lane lane_{gpu_->make_stream(), std::move(world_.lane.collective), true};
  Staged staged_{gpu_, *lane_.stream, *lane_.collective, 0, 1};
  TensorTable table_;
  Recorder recorder_{10};
  Tracer tracer_;
  Finisher finisher_{table_, recorder_, tracer_, kWorld};
  Decision decision_;
  GpuWait gpu_wait_;
  Completer completer_{std::chrono::milliseconds(0), {[](const Status&) {}}};
  GpuCompletion completion_{lane_, finisher_, GpuSide{gpu_, &completer_, &staged_, &gpu_wait_}};
};

TEST_F(GpuCompletionTest, IsThereWhenTheStreamReachesTheMarkBehindTheWork) {
  for (const bool fails : {false, true}) {
    gate_.close();
    completion_.make_room();
    RunningBatch batch;
    const Handle handle = begin(batch);
    completion_.begin(batch.items, false);
    EXPECT_EQ(gpu_wait_.what, "allreduce of 'x'");
    completion_.complete(std::move(batch), fails ? Status{Code::aborted, "rank 1 is gone"} : Status{});
    EXPECT_FALSE(handle.poll()) << "what is on the stream still uses the tensor";
    EXPECT_EQ(completer_.flights(), 1u);
    gate_.open();
    EXPECT_TRUE(completer_.drain().ok());
    ASSERT_TRUE(handle.poll());
    if (fails) {
      EXPECT_THROW(handle.wait(), Error);
    } else {
      handle.wait();
    }
  }
}

/// A request of a graph that calls something when the graph may go on.
class NotedRequest final : public GraphRequest {
 public:
  explicit NotedRequest(std::function<void()> on_release) : on_release_(std::move(on_release)) {}
  [[nodiscard]] bool is_made() const override { return true; }
  void hold_up(void* /*stream*/) const override {}
  void release(Stream& /*own*/) const override { on_release_(); }
  [[nodiscard]] bool is_over() const override { return false; }

 private:
  std::function<void()> on_release_;
};

TEST_F(GpuCompletionTest, FreesNamesBeforeTheGraphGoesOnThatAskedForTheOperations) {
  gate_.open();
  bool released = false;
  const auto request = std::make_shared<NotedRequest>([&] {
    released = true;
    Entry again;
    again.name = "x";
    static_cast<void>(table_.put(std::move(again), {kWorld, decision_.request, {}}, {}));
  });
  completion_.make_room();
  RunningBatch batch;
  const Handle handle = begin(batch);
  batch.items.front().loan.run = std::make_shared<GraphRun>(request, 1);
  completion_.begin(batch.items, false);
  completion_.complete(std::move(batch), {});
  handle.wait();
  EXPECT_TRUE(released);
  completer_.drain();
}

TEST_F(GpuCompletionTest, HasNothingToDoForABatchThatHasNoTensors) {
  completion_.complete({}, {Code::internal, "this rank does not have it"});
  EXPECT_EQ(completer_.flights(), 0u);
}

TEST_F(GpuCompletionTest, HasStandInsThatChangeNothing) {
  Request request;
  request.shape = {3};
  request.op = ReduceOp::product;
  const auto memory = completion_.stand_in(request);
  while (!lane_.stream->mark()->reached()) std::this_thread::yield();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(reinterpret_cast<const float*>(memory.get())[i], 1.0F);
}

TEST_F(GpuCompletionTest, LendsEachSegmentToTheHost) {
  std::vector<float> data{1, 2, 3};
  std::vector<float> result(3);
  const std::vector<Segment> segments{{data.data(), result.data(), 1}, {&data[1], &result[1], 2}};
  completion_.on_host(segments, sizeof(float), [&](Collective&, std::span<const Segment> lent) {
    ASSERT_EQ(lent.size(), 1U);
    for (std::size_t i = 0; i < lent.front().count; ++i) static_cast<float*>(lent.front().output)[i] *= 2;
  });
  while (!lane_.stream->mark()->reached()) std::this_thread::yield();
  EXPECT_EQ(result, (std::vector<float>{2, 4, 6}));
}

}  // namespace
}  // namespace hora
