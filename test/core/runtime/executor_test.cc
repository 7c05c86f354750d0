// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/executor.h"

#include "core/backend/local/local_group.h"
#include "core/runtime/admission.h"

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

  LocalGroup group_{1};
  World world_ = group_.join(0);
  TensorTable table_;
  Recorder recorder_;
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

TEST_F(ExecutorTest, GivesTheTensorBackWhenItsOutputCannotBeMade) {
  const std::vector<float> a{1};
  Entry entry;
  entry.operation = Operation::allgather;
  entry.name = "a";
  entry.shape = {1};
  entry.input = a.data();
  entry.allocate = [](const auto& /*shape*/) -> void* { throw std::runtime_error("out of memory"); };
  decisions_.push_back({{}, admit(entry, 0, ProcessSets(1)).request, {1}, true, 1, {}});
  const Handle handle = table_.put(entry, {kWorld, decisions_.front().request}, {});
  EXPECT_THROW(executor_.carry_out(decisions_, {{0}}, {}), Error);
  ASSERT_TRUE(handle.poll());
  EXPECT_THROW(handle.wait(), Error);
}

TEST_F(ExecutorTest, GivesTheWholeBatchBackWhenThisRankLacksOneOfIt) {
  std::vector<float> a{1};
  const Handle handle = put("a", a);
  Request stranger;
  stranger.name = "b";
  decisions_.push_back({{}, stranger, {}, true, 1, {}});
  EXPECT_THROW(executor_.carry_out(decisions_, {{0, 1}}, {}), Error);
  EXPECT_TRUE(handle.poll());
}

}  // namespace
}  // namespace hora
