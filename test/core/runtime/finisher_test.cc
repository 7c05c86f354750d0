// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/finisher.h"

#include "test/support/thrown.h"

#include <gtest/gtest.h>

namespace hora {
namespace {

class FinisherTest : public testing::Test {
 protected:
  /// A batch of one tensor "x", and its handle.
  Handle begin(RunningBatch& batch) {
    Entry entry;
    entry.name = "x";
    entry.shape = {1};
    Request request;
    request.name = "x";
    request.shape = {1};
    Handle handle = table_.put(std::move(entry), {kWorld, request}, {});
    batch.items.push_back({nullptr, *table_.take(kWorld, "x"), {}});
    return handle;
  }

  TensorTable table_;
  Recorder recorder_{10};
  Tracer tracer_;
  Finisher finisher_{table_, recorder_, tracer_, kWorld};
};

TEST_F(FinisherTest, SaysWhetherOutputsAreFiniteIfThatWasAskedFor) {
  for (const std::uint32_t set : {0U, 1U}) {
    RunningBatch batch;
    const Handle handle = begin(batch);
    batch.flag = std::make_shared<std::uint32_t>(set);
    finisher_.finish(std::move(batch), {}, true);
    EXPECT_EQ(handle.wait().finite, set == 0);
  }
  EXPECT_EQ(recorder_.records().size(), 2U);
}

TEST_F(FinisherTest, NamesATensorInAnErrorOnce) {
  for (const auto& [why, text] : std::map<std::string, std::string>{
           {"rank 1 is gone", "rank 1 is gone ('x' holds undefined values)"},
           {"'x' is late", "'x' is late (its output holds undefined values)"}}) {
    RunningBatch batch;
    const Handle handle = begin(batch);
    finisher_.finish(std::move(batch), {Code::aborted, why}, true);
    EXPECT_EQ(thrown([&] { handle.wait(); }).message, text);
  }
}

TEST_F(FinisherTest, NeverFreesMemoryThatAGpuMayStillUse) {
  RunningBatch batch;
  const Handle handle = begin(batch);
  batch.items.front().memory =
      std::shared_ptr<std::byte>(new std::byte[1], std::default_delete<std::byte[]>());
  batch.flag = std::make_shared<std::uint32_t>(0);
  batch.outgrown = {batch.items.front().memory};
  const std::weak_ptr<std::byte> memory = batch.items.front().memory;
  const std::weak_ptr<std::uint32_t> flag = batch.flag;
  finisher_.finish(std::move(batch), {Code::aborted, "the GPU is broken"}, false);
  EXPECT_FALSE(memory.expired());
  EXPECT_FALSE(flag.expired());
  EXPECT_TRUE(handle.poll());
}

TEST_F(FinisherTest, GivesNoStandInBack) {
  RunningBatch batch;
  batch.items.push_back({nullptr, {std::make_shared<Entry>()}, {}});
  finisher_.finish(std::move(batch), {}, true);
  EXPECT_TRUE(recorder_.records().empty());
}

}  // namespace
}  // namespace hora
