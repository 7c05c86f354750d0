// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/session.h"

#include "core/backend/local/local_group.h"
#include "core/base/memory.h"
#include "test/support/queued_gpu.h"
#include "test/support/threads.h"
#include "test/support/thrown.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <optional>
#include <thread>

namespace hora {
namespace {

Entry barrier_of(const std::string& name) {
  Entry entry;
  entry.operation = Operation::barrier;
  entry.name = name;
  return entry;
}

TEST(Session, EndsItsOperationsWithACodeThatTellsWhetherTheJobGoesOn) {
  for (const bool goes_on : {false, true}) {
    local::LocalGroup group(2);
    run_ranks(2, [&](int rank) {
      Lasting lasting(0, nullptr);
      Session session(group.join(rank), {}, lasting, goes_on);
      if (rank == 1) return session.leave("no data");
      const Status why = thrown([&] { session.submit(barrier_of("b")).wait(); });
      EXPECT_EQ(why.code, goes_on ? Code::generation_ended : Code::aborted);
      EXPECT_THAT(why.message, testing::HasSubstr("no data"));
      session.leave({});
    });
  }
}

TEST(Session, FailEndsALeaveThatWaitsForOtherRanks) {
  local::LocalGroup group(2);
  run_ranks(2, [&](int rank) {
    Lasting lasting(0, nullptr);
    Session session(group.join(rank), {}, lasting, false);
    if (rank == 0) {
      std::thread leaver([&] { session.leave({}); });
      session.fail("an exception that nobody catches");
      leaver.join();
    } else {
      EXPECT_FALSE(thrown([&] { session.submit(barrier_of("b")).wait(); }).ok());
      session.leave({});
    }
  });
}

/// The sum of a float on that GPU, in place.
Entry sum_on_gpu(const std::string& name, int gpu, float& value, Gate* stream = nullptr) {
  Entry entry;
  entry.name = name;
  entry.device = {DeviceKind::cuda, gpu};
  entry.stream = stream;
  entry.input = entry.output = &value;
  entry.op = ReduceOp::sum;
  return entry;
}

/// A session that carries out what its graphs ask for.
class SessionWithGraphs {
 public:
  SessionWithGraphs(World world, int gpu)
      : lasting_(gpu, &queued_nccl()), session_(std::move(world), {}, lasting_, false) {
    lasting_.captured.submit_by([this](std::vector<Entry> group, const std::shared_ptr<GraphRun>& run) {
      return session_.submit_again(std::move(group), run);
    });
  }
  ~SessionWithGraphs() {
    lasting_.captured.close();
    session_.leave({});
  }
  Session* operator->() { return &session_; }

 private:
  Lasting lasting_;
  Session session_;
};

TEST(Session, CarriesOutWhatGraphsAskFor) {
  constexpr int kRuns = 50;
  local::LocalGroup group(2);
  run_ranks(2, [&](int rank) {
    SessionWithGraphs session(group.join(rank), rank);
    Gate stream;
    float first = 0;
    std::array<float, 2> pair{};
    float eager = 1;
    session->submit(sum_on_gpu("eager", rank, eager)).wait();
    QueuedGraph graph(stream);
    session->submit(sum_on_gpu("first", rank, first, &stream)).wait_on(&stream);
    for (const auto& each : session->submit(std::vector<Entry>{sum_on_gpu("a", rank, pair[0], &stream),
                                                               sum_on_gpu("b", rank, pair[1], &stream)}))
      each.wait_on(&stream);
    graph.end();
    for (int run = 0; run < kRuns; ++run) {
      first = static_cast<float>(rank + run);
      pair = {static_cast<float>(run), 1};
      graph.run();
      EXPECT_EQ(first, static_cast<float>(1 + 2 * run));
      EXPECT_EQ(pair, (std::array<float, 2>{static_cast<float>(2 * run), 2}));
      first = 1;
      session->submit(sum_on_gpu("first", rank, first)).wait();  // the name is free when the graph goes on
      EXPECT_EQ(first, 2);
    }
  });
}

TEST(Session, LetsAGraphRunBeforeAnOperationWhoseInputComesAfterIt) {
  local::LocalGroup group(2);
  run_ranks(2, [&](int rank) {
    SessionWithGraphs session(group.join(rank), rank);
    Gate stream;
    stream.open();
    float value = 0;
    float later = 1;
    session->submit(sum_on_gpu("x", rank, value)).wait();
    QueuedGraph graph(stream);
    session->submit(sum_on_gpu("x", rank, value, &stream)).wait_on(&stream);
    graph.end();
    for (int run = 0; run < 20; ++run) {
      value = later = 1;
      stream.close();  // behind it there is the run of the graph now
      const Handle after = session->submit(sum_on_gpu("later", rank, later, &stream));
      graph.run();
      EXPECT_EQ(value, 2);
      EXPECT_FALSE(after.has_ended());
      stream.open();
      after.wait();
      EXPECT_EQ(later, 2);
    }
  });
}

TEST(Session, LetsAGraphOfAFormerGenerationRunBeforeAnOperationWhoseInputComesAfterIt) {
  local::LocalGroup former(2);
  local::LocalGroup group(2);
  run_ranks(2, [&](int rank) {
    Gate stream;
    stream.open();
    float value = 1;
    float later = 1;
    Lasting lasting(rank, &queued_nccl());
    std::optional<Session> session(std::in_place, former.join(rank), Config{}, lasting, true);
    lasting.captured.submit_by([&](std::vector<Entry> entries, const std::shared_ptr<GraphRun>& run) {
      return session->submit_again(std::move(entries), run);
    });
    session->submit(sum_on_gpu("x", rank, value)).wait();
    QueuedGraph graph(stream);
    session->submit(sum_on_gpu("x", rank, value, &stream)).wait_on(&stream);
    const Status unnamed = thrown([&] { session->submit(sum_on_gpu("sum.noname.1", rank, value, &stream)); });
    EXPECT_THAT(unnamed.message, testing::HasSubstr("in an elastic job without a name"));
    graph.end();
    session->leave({});
    session.reset();

    session.emplace(group.join(rank), Config{}, lasting, true);
    session->submit(sum_on_gpu("x", rank, value)).wait();
    value = 1;
    stream.close();  // behind it there is the run of the graph now
    const Handle after = session->submit(sum_on_gpu("later", rank, later, &stream));
    EXPECT_FALSE(after.wait_launched_for(std::chrono::milliseconds(20)));
    graph.run();
    EXPECT_EQ(value, 2);
    stream.open();
    after.wait();
    EXPECT_EQ(later, 2);
    lasting.captured.close();
    session->leave({});
  });
}

TEST(Session, GivesOperationsWithoutANameNamesOfTheirOwnInAGraph) {
  SessionWithGraphs session(local::LocalGroup(1).join(0), 0);
  Gate stream;
  stream.open();
  float value = 1;
  session->submit(sum_on_gpu("allreduce.noname.1", 0, value)).wait();
  QueuedGraph graph(stream);
  session->submit(sum_on_gpu("allreduce.noname.2", 0, value, &stream)).wait_on(&stream);
  graph.end();
  float other = 1;
  stream.close();  // so the name stays taken
  const Handle eager = session->submit(sum_on_gpu("allreduce.noname.2", 0, other, &stream));
  graph.run();
  EXPECT_EQ(value, 1) << "it has not failed";
  stream.open();
  eager.wait();
}

TEST(Session, ThrowsTheErrorOfAGraphWhenTheNextOperationIsSubmitted) {
  local::LocalGroup group(2);
  run_ranks(2, [&](int rank) {
    SessionWithGraphs session(group.join(rank), rank);
    Gate stream;
    std::array<float, 2> values{};
    float other = 1;
    session->submit(sum_on_gpu("eager", rank, values[0])).wait();
    QueuedGraph graph(stream);
    Entry entry = sum_on_gpu("x", rank, values[0], &stream);
    entry.shape = {rank + 1};
    session->submit(std::move(entry)).wait_on(&stream);
    graph.end();
    graph.run();
    EXPECT_TRUE(std::isnan(values[0]));
    const Status status = thrown([&] { (void)session->submit(sum_on_gpu("y", rank, other)); });
    EXPECT_EQ(status.code, Code::mismatch);
    EXPECT_THAT(status.message, testing::HasSubstr("an operation in a CUDA graph has failed: 'x'"));
    session->submit(sum_on_gpu("y", rank, other)).wait();
    EXPECT_EQ(other, 2);
  });
}

TEST(Session, CapturesOnlyWhereOperationsHaveRunAndOnOneStream) {
  SessionWithGraphs session(local::LocalGroup(1).join(0), 0);
  Gate stream;
  float value = 1;
  float other = 1;
  const auto refused = [&](const std::vector<Entry>& entries) {
    const Status status = thrown([&] { (void)session->submit(entries); });
    EXPECT_EQ(status.code, Code::invalid_argument);
    return status.message;
  };
  {
    const QueuedGraph graph(stream);
    EXPECT_EQ(
        refused({sum_on_gpu("x", 0, value, &stream)}),
        "'x' on cuda:0: it cannot run in a CUDA graph yet, because no allreduce of float32 with its op, "
        "scaling and compression has run on the GPU before, among these ranks and on the way that it takes "
        "now: run the step once without a graph, as torch.cuda.graph asks for anyway");
  }
  session->submit(sum_on_gpu("x", 0, value)).wait();
  const QueuedGraph graph(stream);
  EXPECT_EQ(refused({sum_on_gpu("x", 0, value, &stream), sum_on_gpu("y", 0, other)}),
            "'x' and 'y' cannot be in one group of operations while one of them is captured into a CUDA "
            "graph: they "
            "are not submitted on the same stream");
}

TEST(Session, CapturesNothingThatWillTakeAnotherWayWhenNcclIsConnected) {
  const HeldConnections held;
  const int before = queued_nccl_calls();
  local::LocalGroup group(2);
  run_ranks(2, [&](int rank) {
    World world = group.join(rank);
    world.membership.generation = 2;
    SessionWithGraphs session(std::move(world), rank);
    Gate stream;
    float value = 1;
    const auto reduce = [&] { session->submit(sum_on_gpu("x", rank, value)).wait(); };
    const auto captured = [&] {
      const QueuedGraph graph(stream);
      return thrown([&] { session->submit(sum_on_gpu("x", rank, value, &stream)).wait_on(&stream); });
    };
    reduce();
    EXPECT_THAT(captured().message, testing::HasSubstr("NCCL is still being connected among the new ranks"));
    std::array<float, 1> all{};
    Entry looked;
    looked.name = "all have looked";
    looked.input = looked.output = all.data();
    looked.shape = {1};
    session->submit(std::move(looked)).wait();
    HeldConnections::let_go();
    while (queued_nccl_calls() == before) reduce();
    EXPECT_EQ(captured(), Status{});
  });
}

TEST(Session, WaitsForAGpuThatWasGivenUpAndSaysIfItDoesNotEnd) {
  const auto gate = std::make_shared<Gate>();
  const auto value = std::make_shared<float>(1.0F);
  keep_for_ever(gate);
  keep_for_ever(value);
  SessionWithGraphs session(local::LocalGroup(1).join(0), 0);
  session->submit(sum_on_gpu("x", 0, *value, gate.get())).wait_on(nullptr);
  session->end({Code::generation_ended, "its ranks change"});
  session->stop();
  const Status status = thrown([&] { session->await_gpu(std::chrono::milliseconds(20), [] {}); });
  EXPECT_EQ(status.code, Code::internal);
  EXPECT_EQ(status.message,
            "the GPU has not ended what it was given within 0.02 s (HORA_START_TIMEOUT); it may still write "
            "to tensors, so this process cannot join other ranks");
  const auto leaves = [] { throw Error(Code::aborted, "it has left"); };
  EXPECT_EQ(thrown([&] { session->await_gpu(std::chrono::minutes(1), leaves); }).message, "it has left");
  gate->open();
  session->await_gpu(std::chrono::minutes(1), [] {});
}

TEST(Session, GivesTheNumberThatWasReturnedAgain) {
  Lasting lasting(0, nullptr);
  Session session(local::LocalGroup(1).join(0), {}, lasting, false);
  EXPECT_EQ(session.next_number(0), 1U);
  EXPECT_EQ(session.next_number(0), 2U);
  session.return_number(1, 0);
  EXPECT_EQ(session.next_number(0), 3U);
  session.return_number(3, 0);
  EXPECT_EQ(session.next_number(0), 3U);
  EXPECT_EQ(session.next_number(7), 1U) << "each process set has its own";
  session.leave({});
}

}  // namespace
}  // namespace hora
