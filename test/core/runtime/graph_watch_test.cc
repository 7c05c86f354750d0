// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/graph_watch.h"

#include "core/runtime/handle.h"
#include "test/support/queued_gpu.h"
#include "test/support/thrown.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cmath>
#include <thread>

namespace hora {
namespace {

using testing::HasSubstr;

/// A watch, its thread, and a job that does what the test wants.
class GraphWatchTest : public testing::Test {
 protected:
  GraphWatchTest() {
    watch_.submit_by([this](std::vector<Entry> group, const std::shared_ptr<GraphRun>& run) {
      return carry_out(std::move(group), run);
    });
  }
  ~GraphWatchTest() override {
    watch_.close();
    thread_.join();
  }

  /// Adds 1 to each element, as an operation on the GPU would.
  std::vector<Handle> carry_out(std::vector<Entry> group, const std::shared_ptr<GraphRun>& run) {
    ++submissions_;
    if (!refusal_.ok()) throw Error(refusal_);
    std::vector<Handle> handles;
    for (const auto& entry : group) {
      put_on_queue(*own_, [to = static_cast<float*>(entry.output),
                           from = static_cast<const float*>(entry.input)] { *to = *from + 1; });
      const bool fails = entry.name == fails_;
      if (!fails) run->launched(*own_);
      auto state = std::make_shared<Handle::State>();
      put_on_queue(*own_, [state, fails] {
        state->set({fails ? Status{Code::mismatch, "'b': ranks disagree"} : Status{}, {}});
      });
      handles.emplace_back(std::move(state));
    }
    return handles;
  }

  CapturedOperation operation(const std::string& name, float& input, float& output) {
    CapturedOperation made;
    made.entry.name = name;
    made.entry.input = &input;
    made.entry.output = &output;
    made.written = &output;
    made.bytes = sizeof(float);
    return made;
  }
  /// Makes them a part of the graph, which waits for them at once.
  void capture(QueuedGraph& graph, std::vector<CapturedOperation> operations) {
    const auto request = graph.add_request();
    request->hold_up(&stream_);
    watch_.add({request, std::move(operations)});
  }

  Gate stream_;
  std::shared_ptr<Gpu> gpu_ = make_queued_gpu();
  std::unique_ptr<Stream> own_ = gpu_->make_stream();
  std::atomic<int> submissions_{0};
  Status refusal_;
  std::string fails_;
  GraphWatch watch_;
  std::unique_ptr<Stream> watchs_ = gpu_->make_stream();
  std::thread thread_{[this] { watch_.run(*watchs_); }};
};

TEST_F(GraphWatchTest, SubmitsOperationsInEachRunOfTheGraph) {
  float input = 0;
  float output = 0;
  QueuedGraph graph(stream_);
  capture(graph, {operation("x", input, output)});
  graph.end();
  EXPECT_EQ(submissions_, 0) << "a capture submits nothing";
  for (int run = 0; run < 100; ++run) {
    graph.run([&] { input = static_cast<float>(run); },
              [&] { EXPECT_EQ(output, static_cast<float>(run) + 1); });
  }
  EXPECT_EQ(submissions_, 100);
  watch_.check();
}

TEST_F(GraphWatchTest, SubmitsInTheOrderOfTheGraphAndTogetherWhatBelongsTogether) {
  std::array<float, 3> values{};
  QueuedGraph graph(stream_);
  capture(graph, {operation("a", values[0], values[1])});
  capture(graph, {operation("b", values[1], values[2]), operation("c", values[1], values[1])});
  graph.end();
  values[0] = 1;
  graph.run();
  EXPECT_EQ(values[1], 3) << "a and then c";
  EXPECT_EQ(values[2], 3) << "b reads what a has written";
  EXPECT_EQ(submissions_, 2);
}

TEST_F(GraphWatchTest, FillsOutputsOfFailedOperationsWithNanAndLetsTheGraphGoOn) {
  std::array<float, 3> values{};
  QueuedGraph graph(stream_);
  capture(graph, {operation("a", values[0], values[1]), operation("b", values[0], values[2])});
  graph.end();
  fails_ = "b";
  testing::internal::CaptureStderr();
  for (int run = 0; run < 3; ++run) {
    values.fill(0);
    graph.run();
    EXPECT_EQ(values[1], 1);
    EXPECT_TRUE(std::isnan(values[2]));
  }
  const Status status = thrown([&] { watch_.check(); });
  EXPECT_EQ(status.code, Code::mismatch);
  EXPECT_EQ(status.message, "an operation in a CUDA graph has failed: 'b': ranks disagree");
  watch_.check();  // once
  fails_.clear();
  graph.run();
  EXPECT_EQ(values[2], 1);
  EXPECT_THAT(
      testing::internal::GetCapturedStderr(),
      HasSubstr(
          "an operation in a CUDA graph has failed, so its output is NaN or undefined; the next call of "
          "Hora throws this error: 'b': ranks disagree"));
}

TEST_F(GraphWatchTest, FillsOutputsWithNanIfNothingCanBeSubmitted) {
  float value = 0;
  QueuedGraph graph(stream_);
  capture(graph, {operation("x", value, value)});
  graph.end();
  refusal_ = {Code::aborted, "'x': rank 1 is gone"};
  testing::internal::CaptureStderr();
  graph.run();
  EXPECT_TRUE(std::isnan(value));
  EXPECT_EQ(thrown([&] { watch_.check(); }).code, Code::aborted);
  testing::internal::GetCapturedStderr();
}

TEST_F(GraphWatchTest, SaysNothingOfAGenerationThatHasEndedAndForgetsItInTheNext) {
  float value = 0;
  QueuedGraph graph(stream_);
  capture(graph, {operation("x", value, value)});
  graph.end();
  refusal_ = {Code::generation_ended, "rank 1 is gone"};
  testing::internal::CaptureStderr();
  graph.run();
  EXPECT_TRUE(std::isnan(value));
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  watch_.forget_failures();
  watch_.check();
}

TEST_F(GraphWatchTest, LetsNoGraphWaitThatRunsAfterTheJob) {
  float value = 0;
  QueuedGraph graph(stream_);
  capture(graph, {operation("x", value, value)});
  graph.end();
  testing::internal::CaptureStderr();
  watch_.submit_by({});
  EXPECT_FALSE(watch_.close()) << "it looks at the graph that there is";
  graph.run();
  EXPECT_TRUE(std::isnan(value));
  EXPECT_EQ(submissions_, 0);
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("this process has left its job"));
}

TEST_F(GraphWatchTest, ForgetsWhatIsOver) {
  auto kept = std::make_shared<int>(0);
  float value = 0;
  {
    QueuedGraph graph(stream_);
    watch_.add({graph.add_request(), {operation("x", value, value)}, {kept}});
  }
  while (kept.use_count() > 1) std::this_thread::yield();
}

}  // namespace
}  // namespace hora
