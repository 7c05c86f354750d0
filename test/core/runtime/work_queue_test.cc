// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/work_queue.h"

#include "core/backend/local/local_group.h"
#include "test/support/thrown.h"

#include <gtest/gtest.h>

namespace hora {
namespace {

/// A rank that is alone, and what it has heard.
class WorkQueueTest : public testing::Test {
 protected:
  Handle submit(const std::string& name, Decision& decision, int group = kWorld) {
    Entry entry;
    entry.name = name;
    entry.operation = decision.request.operation;
    decision.request.name = name;
    return table_.put(std::move(entry), {group, decision.request}, Clock::now());
  }
  /// A barrier of this name is decided.
  Handle barrier(const std::string& name, Negotiator::Heard& heard, int group = kWorld) {
    heard.group = group;
    heard.decisions.emplace_back();
    heard.decisions.back().request.operation = Operation::barrier;
    return submit(name, heard.decisions.back(), group);
  }

  local::LocalGroup group_{1};
  World world_ = group_.join(0);
  Config config_;
  TensorTable table_;
  ProcessSets sets_{1};
  Timeline timeline_{1};
  Recorder recorder_{10};
  Negotiator negotiator_{*world_.control};
  Tracing tracing_{timeline_, negotiator_, 0};
  AbortBroadcaster aborter_;
  OwnGpu gpu_{0};
  Groups groups_{
      world_, config_, {0}, table_, recorder_, tracing_.tracer(), aborter_, gpu_, {[](const Status&) {}}};
  BatchSizer sizer_{world_, config_, groups_, negotiator_};
  ProcessSetChanges changes_{sets_, groups_, table_, negotiator_};
  Watchdog watchdog_{std::chrono::milliseconds(0), [] { return std::uint64_t{0}; }, [](const Status&) {}};
  WorkQueue work_{groups_, changes_, sizer_, tracing_, watchdog_};
};

TEST_F(WorkQueueTest, CarriesOutOneBatchAtATimeInTheOrderOfTheDecisions) {
  EXPECT_FALSE(work_.carry_out_next()) << "there is none";
  Negotiator::Heard heard;
  const std::vector<Handle> handles{barrier("a", heard), barrier("b", heard)};
  Negotiator::Heard last;
  last.end = true;
  work_.add(std::move(heard));
  work_.add(std::move(last));
  EXPECT_FALSE(work_.carry_out_next());
  EXPECT_TRUE(handles[0].poll());
  EXPECT_FALSE(handles[1].poll());
  EXPECT_FALSE(work_.carry_out_next());
  EXPECT_TRUE(handles[1].poll());
  EXPECT_TRUE(work_.carry_out_next()) << "the job has ended";
  EXPECT_TRUE(work_.empty());
}

TEST_F(WorkQueueTest, GivesATensorOnWhichRanksDisagreeBackWithTheError) {
  Negotiator::Heard heard;
  const Handle handle = barrier("a", heard);
  heard.decisions.front().status = {Code::mismatch, "'a': differs"};
  work_.add(std::move(heard));
  EXPECT_FALSE(work_.carry_out_next());
  EXPECT_EQ(thrown([&] { handle.wait(); }), (Status{Code::mismatch, "'a': differs"}));
  EXPECT_TRUE(work_.empty());
}

TEST_F(WorkQueueTest, PassesOverWorkOfASetThatWasRemoved) {
  Negotiator::Heard heard;
  heard.group = 7;
  work_.add(std::move(heard));
  EXPECT_FALSE(work_.carry_out_next());
  EXPECT_TRUE(work_.empty());
}

}  // namespace
}  // namespace hora
