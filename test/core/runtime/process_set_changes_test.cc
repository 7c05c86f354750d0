// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/process_set_changes.h"

#include "core/backend/local/local_group.h"
#include "test/support/threads.h"
#include "test/support/thrown.h"

#include <gtest/gtest.h>

namespace hora {
namespace {

/// A rank of two that adds and removes sets.
struct RankWithSets {
  RankWithSets(local::LocalGroup& group, int number) : world(group.join(number)) {}

  /// Asks for a change to the set of these ranks, and makes it. Returns the handle.
  template <typename Change>
  Handle change(const Change& carry_out, const std::vector<int>& ranks) {
    Decision decision;
    decision.request.name = "change";
    decision.request.operation = Operation::add_process_set;
    decision.request.ranks = ranks;
    Entry entry;
    entry.name = "change";
    Handle handle = table.put(std::move(entry), {kWorld, decision.request}, Clock::now());
    carry_out(decision);
    return handle;
  }
  Handle add(const std::vector<int>& ranks) {
    return change([this](const Decision& decision) { changes.add(decision, {}); }, ranks);
  }
  Handle remove(const std::vector<int>& ranks) {
    return change([this](const Decision& decision) { changes.remove(decision, {}); }, ranks);
  }

  World world;
  Config config;
  TensorTable table;
  ProcessSets sets{2};
  Recorder recorder{10};
  Tracer tracer;
  AbortBroadcaster aborter;
  OwnGpu gpu{0};
  Groups groups{world, config, {0, 1}, table, recorder, tracer, aborter, gpu, {[](const Status&) {}}};
  Negotiator negotiator{*world.control};
  ProcessSetChanges changes{sets, groups, table, negotiator};
};

TEST(ProcessSetChanges, AddASetOnceAndRemoveItOnce) {
  local::LocalGroup group(2);
  run_ranks(2, [&](int number) {
    RankWithSets rank(group, number);
    EXPECT_EQ(rank.add({1}).wait().process_set, 1);
    EXPECT_EQ(rank.groups.find(1) != nullptr, number == 1);
    EXPECT_EQ(thrown([&] { rank.add({1}).wait(); }).message,
              "'change': there is one of these ranks already, number 1");
    Entry entry;
    entry.name = "x";
    Request request;
    request.name = "x";
    const Handle waits = rank.table.put(std::move(entry), {1, request}, Clock::now());
    rank.remove({1}).wait();
    EXPECT_EQ(rank.groups.find(1), nullptr);
    EXPECT_EQ(thrown([&] { waits.wait(); }).message, "'x': process set 1 was removed");
    EXPECT_EQ(thrown([&] { rank.remove({1}).wait(); }).message, "'change': it has been removed already");
    EXPECT_EQ(rank.add({1}).wait().process_set, 2) << "no number is given twice";
  });
}

}  // namespace
}  // namespace hora
