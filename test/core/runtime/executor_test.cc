// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/executor.h"

#include "core/backend/local/local_group.h"
#include "core/runtime/admission.h"
#include "test/support/queued_gpu.h"
#include "test/support/thrown.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace hora {
namespace {

class ExecutorTest : public testing::Test {
 protected:
  Handle put(const std::string& name, std::vector<float>& data) {
    Entry entry;
    entry.name = name;
    entry.shape = {static_cast<std::int64_t>(data.size())};
    entry.input = entry.output = data.data();
    Request request;
    request.name = name;
    request.shape = entry.shape;
    decisions_.push_back({{}, request, {}, true, 1, {}});
    return table_.put(std::move(entry), {kWorld, request}, {});
  }

  local::LocalGroup group_{1};
  World world_ = group_.join(0);
  TensorTable table_;
  Recorder recorder_{100};
  Tracer tracer_;
  Executor executor_{world_.lane, table_, recorder_, tracer_, {kWorld, {0}, 0}, 1 << 20};
  std::vector<Decision> decisions_;
};

TEST_F(ExecutorTest, CarriesOutABatchAndRecordsIt) {
  std::vector<float> a{1, 2};
  std::vector<float> b{3};
  const Handle first = put("a", a);
  const Handle second = put("b", b);
  executor_.carry_out(decisions_, {{0, 1}}, {});
  EXPECT_TRUE(first.poll());
  EXPECT_TRUE(second.poll());
  ASSERT_EQ(recorder_.records().size(), 2u);
  EXPECT_EQ(recorder_.records().front().name, "a");
}

TEST_F(ExecutorTest, RefusesWithTheDecisionsStatus) {
  std::vector<float> a{1};
  const Handle handle = put("a", a);
  decisions_.front().status = {Code::mismatch, "'a': differs"};
  executor_.conclude(decisions_.front(), {decisions_.front().status, {}}, {});
  EXPECT_THROW(handle.wait(), Error);
  executor_.conclude(decisions_.front(), {decisions_.front().status, {}},
                     {});  // this rank has not asked for it: nothing to do
}

TEST_F(ExecutorTest, GivesTensorsBackWhenMovingThemFails) {
  std::vector<float> a{1};
  const Handle handle = put("a", a);
  world_.lane.collective->abort({Code::aborted, "rank 1 is gone"});
  EXPECT_THROW(executor_.carry_out(decisions_, {{0}}, {}), Error);
  try {
    handle.wait();
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "rank 1 is gone ('a' holds undefined values)");
  }
}

TEST_F(ExecutorTest, NamesATensorOnceWhenWhatMovedItHasNamedIt) {
  std::vector<float> a{1};
  const Handle handle = put("a", a);
  world_.lane.collective->abort({Code::timeout, "allreduce of 'a' has made no progress for 120 s"});
  EXPECT_THROW(executor_.carry_out(decisions_, {{0}}, {}), Error);
  try {
    handle.wait();
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "allreduce of 'a' has made no progress for 120 s (its output holds undefined values)");
  }
}

TEST_F(ExecutorTest, GivesTheTensorBackWhenItsOutputCannotBeMade) {
  const std::vector<float> a{1};
  Entry entry;
  entry.operation = Operation::allgather;
  entry.name = "a";
  entry.shape = {1};
  entry.input = a.data();
  entry.allocate = [](const auto& /*shape*/) -> void* { throw std::runtime_error("out of memory"); };
  decisions_.push_back({{}, admit(entry, 0, ProcessSets(1)).request, {1}, true, 1, {}});
  const Handle handle = table_.put(Entry(entry), {kWorld, decisions_.front().request}, {});
  EXPECT_THROW(executor_.carry_out(decisions_, {{0}}, {}), Error);
  ASSERT_TRUE(handle.poll());
  EXPECT_THROW(handle.wait(), Error);
}

TEST_F(ExecutorTest, GivesTheWholeBatchBackWhenThisRankLacksOneOfIt) {
  std::vector<float> a{1};
  const Handle handle = put("a", a);
  Request unknown;
  unknown.name = "b";
  decisions_.push_back({{}, unknown, {}, true, 1, {}});
  EXPECT_THROW(executor_.carry_out(decisions_, {{0, 1}}, {}), Error);
  EXPECT_TRUE(handle.poll());
}

/// A GPU's stream that takes so many calls, and breaks.
class Fragile final : public Stream {
 public:
  Fragile(std::unique_ptr<Stream> inner, int calls) : inner_(std::move(inner)), calls_(calls) {}
  void copy(void* to, const void* from, std::size_t bytes) override { next().copy(to, from, bytes); }
  void set_bytes(void* to, std::byte value, std::size_t bytes) override {
    next().set_bytes(to, value, bytes);
  }
  void move(std::span<const Move> moves, const Conversion& conversion) override {
    next().move(moves, conversion);
  }
  void sum(void* to, std::span<const void* const> sources, std::size_t count, DType dtype,
           double factor) override {
    next().sum(to, sources, count, dtype, factor);
  }
  void quantize(std::span<const BlockMove> moves, const BlockConversion& conversion) override {
    next().quantize(moves, conversion);
  }
  void dequantize(std::span<const BlockMove> moves, const BlockConversion& conversion) override {
    next().dequantize(moves, conversion);
  }
  void sum_blocks(const BlockFloats& to, std::span<const BlockFloats> sources, DType format,
                  std::size_t blocks, double factor) override {
    next().sum_blocks(to, sources, format, blocks, factor);
  }
  [[nodiscard]] std::shared_ptr<std::uint32_t> make_flag() override { return next().make_flag(); }
  [[nodiscard]] std::shared_ptr<Event> mark() override { return next().mark(); }
  void wait(const Event& event) override { next().wait(event); }

 private:
  Stream& next() {
    if (--calls_ < 0) throw Error(Code::internal, "an illegal address");
    return *inner_;
  }
  std::unique_ptr<Stream> inner_;
  int calls_;
};

/// An executor for tensors on a GPU that breaks after so many calls.
class FragileExecutor {
 public:
  explicit FragileExecutor(int calls)
      : lane_{std::make_shared<Fragile>(gpu_->make_stream(), calls), group_.join(0).lane.collective, true} {}

  void carry_out(const std::vector<Decision>& decisions, const Batch& batch) {
    executor_.carry_out(decisions, batch, {});
  }
  Handle put(const Decision& decision, Entry entry) {
    return table_.put(std::move(entry), {kWorld, decision.request, {gpu_->mark(nullptr), nullptr, 1}}, {});
  }
  [[nodiscard]] const GpuWait& gpu_wait() const { return gpu_wait_; }

 private:
  GpuWait gpu_wait_;
  std::shared_ptr<Gpu> gpu_ = make_queued_gpu();
  local::LocalGroup group_{1};
  Lane lane_;
  TensorTable table_;
  Recorder recorder_{100};
  Tracer tracer_;
  Completer completer_{std::chrono::milliseconds(0), {[](const Status&) {}}};
  Executor executor_{lane_,
                     table_,
                     recorder_,
                     tracer_,
                     {kWorld, {0}, 0},
                     1 << 20,
                     GpuSide{gpu_, &completer_, nullptr, &gpu_wait_}};
};

TEST(ExecutorOnAGpu, EndsEveryTensorOnceWhicheverCallTheGpuBreaksIn) {
  constexpr int kCalls = 3;  // to wait for the input, and to mark the beginning and the end
  for (int calls = 0; calls <= kCalls; ++calls) {
    std::vector<float> x{1, 2};
    int done = 0;
    Entry entry = {};
    entry.name = "x";
    entry.shape = {2};
    entry.input = entry.output = x.data();
    entry.done = [&](const Result& /*result*/) { ++done; };
    Request request;
    request.name = "x";
    request.shape = {2};
    const std::vector<Decision> decisions{{{}, request, {}, true, 1, {}}};
    FragileExecutor executor(calls);
    const Handle handle = executor.put(decisions.front(), entry);
    std::string why;
    try {
      executor.carry_out(decisions, {{0}});
      handle.wait();
    } catch (const Error& error) {
      EXPECT_STREQ(error.what(), "an illegal address");
      ASSERT_TRUE(handle.poll()) << calls;
      why = thrown([&] { handle.wait(); }).message;
    }
    EXPECT_EQ(why, calls < kCalls ? "an illegal address ('x' holds undefined values)" : "");
    EXPECT_EQ(done, 1);
    EXPECT_EQ(executor.gpu_wait().what, calls > 0 ? "allreduce of 'x'" : "");
    EXPECT_EQ(executor.gpu_wait().start != nullptr, calls > 1);
  }
}

TEST(ExecutorOnAGpu, SaysWhichTensorThisRankLacks) {
  Request unknown;
  unknown.name = "x";
  const std::vector<Decision> decisions{{{}, unknown, {}, true, 1, {}}};
  FragileExecutor executor(0);
  EXPECT_EQ(thrown([&] { executor.carry_out(decisions, {{0}}); }).message,
            "'x' was decided, but this rank does not have it");
}

}  // namespace
}  // namespace hora
