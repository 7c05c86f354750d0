// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/captured_operations.h"

#include "core/runtime/handle.h"
#include "test/support/queued_gpu.h"
#include "test/support/thrown.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace hora {
namespace {

using testing::HasSubstr;

class CapturedOperationsTest : public testing::Test {
 protected:
  CapturedOperation operation(const std::string& name, float& value) {
    CapturedOperation made;
    made.entry.name = name;
    made.entry.stream = &stream_;
    made.entry.input = made.entry.output = made.written = &value;
    made.bytes = sizeof(float);
    made.shape = {7};
    made.entry.done = [this](const Result&) { ++done_; };
    return made;
  }

  Gate stream_;
  std::shared_ptr<Gpu> gpu_ = make_queued_gpu();
  std::atomic<int> done_{0};
  CapturedOperations captured_;
};

TEST_F(CapturedOperationsTest, RunWithTheGraph) {
  const auto own = gpu_->make_stream();
  std::atomic<int> submissions{0};
  captured_.submit_by([&](std::vector<Entry> group, const std::shared_ptr<GraphRun>& run) {
    ++submissions;
    auto state = std::make_shared<Handle::State>();
    put_on_queue(*own, [state, value = static_cast<float*>(group.front().output)] { *value += 1; });
    run->launched(*own);
    put_on_queue(*own, [state] { state->set({}); });
    return std::vector<Handle>{Handle(state)};
  });
  float value = 0;
  {
    QueuedGraph graph(stream_);
    const auto handle = captured_.capture(gpu_, {operation("x", value)}).front();
    EXPECT_EQ(handle.wait_on(&stream_).shape, std::vector<std::int64_t>{7});
    graph.end();
    EXPECT_EQ(submissions, 0) << "a capture submits nothing";
    for (int run = 0; run < 100; ++run) graph.run();
    EXPECT_EQ(value, 100);
  }
  captured_.close();
}

TEST_F(CapturedOperationsTest, ReturnTheirMemoryWhenTheGraphWaitsForThem) {
  float value = 0;
  {
    QueuedGraph graph(stream_);
    const auto owned = std::make_shared<int>(0);
    auto lent = operation("x", value);
    lent.entry.done = [this, owned](const Result&) { ++done_; };
    const auto handle = captured_.capture(gpu_, {std::exchange(lent, {})}).front();
    EXPECT_FALSE(handle.has_ended());
    EXPECT_EQ(done_, 0);
    EXPECT_EQ(owned.use_count(), 2);
    handle.wait_on(&stream_);
    EXPECT_TRUE(handle.has_ended());
    EXPECT_EQ(done_, 1);
    EXPECT_EQ(owned.use_count(), 1) << "what it owns is free while the graph is still there";
    handle.wait_on(&stream_);
    EXPECT_EQ(done_, 1);
    static_cast<void>(captured_.capture(gpu_, {operation("y", value)}));
  }
  while (done_ < 2) std::this_thread::yield();  // of y, which nobody waited for, with the graph
}

TEST_F(CapturedOperationsTest, AreNotWaitedForOnTheHost) {
  float value = 0;
  const QueuedGraph graph(stream_);
  const auto handle = captured_.capture(gpu_, {operation("x", value)}).front();
  EXPECT_TRUE(handle.wait_launched_for(std::chrono::milliseconds(0)));
  for (const Status& status : {thrown([&] { handle.wait(); }), thrown([&] { (void)handle.poll(); }),
                               thrown([&] { (void)handle.wait_for(std::chrono::milliseconds(1)); })}) {
    EXPECT_EQ(status.code, Code::invalid_argument);
    EXPECT_EQ(
        status.message,
        "'x' is part of a CUDA graph, and runs when the graph does: a stream of the graph can wait for it "
        "during the capture (wait_on, synchronize), the host cannot");
  }
  handle.wait_on(&stream_);
}

TEST_F(CapturedOperationsTest, AreRefusedWhereAGraphCannotHaveThem) {
  float value = 0;
  const auto refused = [&](const auto& change) {
    auto made = operation("x", value);
    change(made.entry);
    const Status status = thrown([&] { check_capturable(made.entry); });
    EXPECT_EQ(status.code, Code::invalid_argument);
    return status.message;
  };
  EXPECT_THAT(refused([](Entry& entry) { entry.operation = Operation::allgather; }),
              HasSubstr("'x' cannot be part of a CUDA graph: the ranks agree on the size of its output"));
  EXPECT_THAT(refused([](Entry& entry) { entry.absent = true; }),
              HasSubstr("this rank has no tensor for it"));
  EXPECT_THAT(refused([](Entry& entry) { entry.failed_with = "backward() failed"; }),
              HasSubstr("this rank has no tensor for it"));
  EXPECT_THAT(refused([](Entry& entry) { entry.check_finite = true; }), HasSubstr("check_finite"));
}

}  // namespace
}  // namespace hora
