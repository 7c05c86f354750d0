// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/job.h"

#include "core/backend/local/local_group.h"
#include "core/base/memory.h"
#include "core/runtime/connect.h"
#include "core/runtime/one_generation.h"
#include "test/support/listed_generations.h"
#include "test/support/local_job.h"
#include "test/support/queued_gpu.h"
#include "test/support/threads.h"
#include "test/support/thrown.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <barrier>
#include <deque>
#include <optional>
#include <thread>

namespace hora {
namespace {

constexpr std::size_t kElements = 300'000;  // over all ways that an allreduce takes

/// The ways in which ranks that are threads are connected.
enum class Plane { threads, shared_memory, sockets };

std::string name_of(Plane plane) {
  if (plane == Plane::threads) return "threads";
  return plane == Plane::sockets ? "sockets" : "shared_memory";
}

/// The ranks of a test: threads, each with its memberships.
class Processes {
 public:
  Processes(Plane plane, int processes, const std::vector<std::vector<int>>& generations)
      : plane_(plane), memberships_(memberships_of(processes, generations)) {
    for (const auto& order : generations) groups_.emplace_back(static_cast<int>(order.size()));
  }

  /// Runs `rank_main` on each process, with its number and its job.
  void run(const std::function<void(int process, Job& job)>& rank_main) {
    run_ranks(static_cast<int>(memberships_.size()), [&](int process) {
      Config config;
      if (plane_ == Plane::sockets) config.cpu_operations = "tcp";
      Job job(config, std::make_unique<ListedGenerations>(
                          config, memberships_[static_cast<std::size_t>(process)], connect_on_plane()));
      rank_main(process, job);
    });
  }

 private:
  Formation::Connect connect_on_plane() {
    if (plane_ != Plane::threads) return connect;
    return [this](const Membership& membership, Config&, TimePoint, const std::shared_ptr<HostMemory>&) {
      World world = groups_.at(membership.generation).join(membership.rank);
      world.membership = membership;
      world.gpu_module = &queued_nccl();
      return world;
    };
  }

  Plane plane_;
  std::vector<std::deque<Membership>> memberships_;
  std::deque<local::LocalGroup> groups_;  // by generation
};

/// Sums `data` over the ranks, in place.
Entry sum(std::string name, std::span<float> data) {
  Entry entry;
  entry.name = std::move(name);
  entry.shape = {static_cast<std::int64_t>(data.size())};
  entry.input = entry.output = data.data();
  entry.op = ReduceOp::sum;
  return entry;
}

/// A gradient in the memory that the ranks share.
struct Gradient {
  explicit Gradient(Job& job) : memory(job.session()->allocate(kElements * sizeof(float))) {}

  [[nodiscard]] std::span<float> all() const { return {reinterpret_cast<float*>(memory.get()), kElements}; }
  void fill(float value) const { std::fill(all().begin(), all().end(), value); }
  [[nodiscard]] bool is(float value) const {
    return std::all_of(all().begin(), all().end(), [value](float each) { return each == value; });
  }

  std::shared_ptr<std::byte> memory;
};

/// Every rank adds its number and 1, and sees the sum.
void expect_sum(Job& job, const Gradient& gradient) {
  const Membership membership = job.session()->membership();
  gradient.fill(static_cast<float>(membership.rank + 1));
  job.session()->submit(sum("gradient", gradient.all())).wait();
  EXPECT_TRUE(gradient.is(static_cast<float>(membership.size * (membership.size + 1) / 2)))
      << "generation " << membership.generation << ", rank " << membership.rank;
}

Status end_of(const Handle& handle) {
  return thrown([&] { handle.wait(); });
}

class JobTest : public testing::TestWithParam<Plane> {};

INSTANTIATE_TEST_SUITE_P(Planes, JobTest,
                         testing::Values(Plane::threads, Plane::shared_memory, Plane::sockets),
                         [](const auto& plane) { return name_of(plane.param); });

TEST_P(JobTest, GoesOnWithTheSameMemoryAfterTheLossOfARank) {
  // Process 3 is lost, and the others come back in another order.
  Processes generations(GetParam(), 4, {{0, 1, 2, 3}, {2, 0, 1}});
  std::barrier submitted(4);
  generations.run([&submitted](int process, Job& job) {
    const Gradient gradient(job);
    expect_sum(job, gradient);
    if (process == 3) {
      submitted.arrive_and_wait();
      return job.shutdown("it is taken away");
    }
    gradient.fill(7);
    const Handle handle = job.session()->submit(sum("only three bring it", gradient.all()));
    submitted.arrive_and_wait();
    const Status end = end_of(handle);
    EXPECT_EQ(end.code, Code::generation_ended) << end.message;
    EXPECT_THAT(end.message, testing::HasSubstr("it is taken away"));
    EXPECT_EQ(thrown([&] { job.session()->submit(sum("late", gradient.all())); }).code,
              Code::generation_ended);

    job.next_generation();
    EXPECT_EQ(job.session()->membership().generation, 1U);
    EXPECT_EQ(job.session()->membership().size, 3);
    EXPECT_EQ(job.session()->membership().rank, (process + 1) % 3);
    EXPECT_TRUE(gradient.is(7)) << "an operation that not all ranks bring changes nothing";
    expect_sum(job, gradient);
    const Gradient other(job);
    expect_sum(job, other);
    EXPECT_EQ(end_of(handle), end);
  });
}

TEST_P(JobTest, EndsPendingOperationsAndMessagesWhenItsRanksChange) {
  Processes generations(GetParam(), 3, {{0, 1, 2}, {0, 1, 2}});
  generations.run([](int process, Job& job) {
    const Gradient gradient(job);
    expect_sum(job, gradient);
    std::vector<Handle> handles;
    std::int32_t number = 0;
    if (process == 0) {
      handles.push_back(job.session()->submit(sum("rank 0 alone brings it", gradient.all())));
      Message wanted;
      wanted.dtype = DType::int32;
      wanted.shape = {1};
      wanted.output = &number;
      wanted.peer = 1;
      handles.push_back(job.session()->receive(wanted));
    }
    job.next_generation();
    for (const auto& handle : handles)
      EXPECT_EQ(end_of(handle).code, Code::generation_ended) << end_of(handle).message;
    expect_sum(job, gradient);
  });
}

TEST_P(JobTest, TakesAProcessThatComesLater) {
  Processes generations(GetParam(), 3, {{0, 1}, {0, 1, 2}, {2, 1}});
  generations.run([](int process, Job& job) {
    const Gradient gradient(job);
    if (process != 2) {
      expect_sum(job, gradient);
      job.next_generation();
    }
    expect_sum(job, gradient);
    if (process == 0) return;
    job.next_generation();
    expect_sum(job, gradient);
  });
}

TEST(Job, BeginsItsNextGenerationWhenTheGpuHasEndedWhatTheFormerOneGaveIt) {
  Processes generations(Plane::threads, 2, {{0, 1}, {0, 1}});
  const auto gate = std::make_shared<Gate>();
  keep_for_ever(gate);
  std::barrier launched(2);
  generations.run([&](int process, Job& job) {
    const auto data = std::make_shared<std::array<float, 10>>();
    keep_for_ever(data);
    Entry entry = sum("late", *data);
    entry.device = {DeviceKind::cuda, process};
    if (process == 1) entry.stream = gate.get();
    job.session()->submit(std::move(entry)).wait_on(nullptr);
    launched.arrive_and_wait();
    job.session()->end({Code::generation_ended, "its ranks change"});
    std::optional<std::jthread> computing;
    if (process == 1) {
      computing.emplace([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
        gate->open();
      });
    }
    job.next_generation();
    EXPECT_TRUE(process == 0 || gate->is_open());
    const Gradient gradient(job);
    expect_sum(job, gradient);
  });
}

TEST(Job, OfOneGenerationSaysSo) {
  Job job({}, make_one_generation({}, [](Config&, TimePoint) { return local::LocalGroup(1).join(0); }));
  EXPECT_FALSE(job.is_elastic());
  EXPECT_TRUE(job.commit()) << "a step counts here, too";
  EXPECT_EQ(
      thrown([&] { job.next_generation(); }),
      (Status{Code::invalid_argument,
              "this job has one generation: its ranks never change; `hrun --min-np` starts one that goes "
              "on with other ranks"}));
}

TEST(Job, WhoseNextGenerationDoesNotComeTogetherKeepsTheReason) {
  auto memberships = memberships_of(1, {{0}, {0}});
  memberships[0].back().size = 2;  // of which one never comes
  Config config;
  config.start_timeout = std::chrono::milliseconds(300);
  Job job(config, std::make_unique<ListedGenerations>(config, memberships[0], connect));
  const Status why = thrown([&] { job.next_generation(); });
  EXPECT_EQ(why.code, Code::timeout) << why.message;
  std::vector<float> data(1);
  EXPECT_EQ(thrown([&] { job.session()->submit(sum("x", data)); }).code, Code::generation_ended);
}

/// The sum of a float on this rank's GPU, in place.
Entry sum_on_gpu(const std::string& name, float& value, Gate& stream) {
  Entry entry = sum(name, {&value, 1});
  entry.device = {DeviceKind::cuda, 0};
  entry.stream = &stream;
  return entry;
}

TEST(Job, DoesNotVoteForAStepInWhichAnOperationOfAGraphHasFailed) {
  local::LocalGroup group(1);
  const auto connect_with_gpu = [&](const Membership& membership, Config&, TimePoint,
                                    const std::shared_ptr<HostMemory>&) {
    World world = group.join(0);
    world.membership = membership;
    world.gpu_module = &queued_nccl();
    return world;
  };
  Job job({},
          std::make_unique<ListedGenerations>(Config{}, memberships_of(1, {{0}}).front(), connect_with_gpu));
  Gate stream;
  stream.open();
  float value = 1;
  float other = 1;
  job.session()->submit(sum_on_gpu("x", value, stream)).wait();
  QueuedGraph graph(stream);
  job.session()->submit(sum_on_gpu("x", value, stream)).wait_on(&stream);
  graph.end();
  graph.run();
  EXPECT_TRUE(job.commit());

  stream.close();
  const Handle eager = job.session()->submit(sum_on_gpu("x", other, stream));
  graph.run();  // its operation is refused, as the name is taken
  EXPECT_THAT(thrown([&] { job.commit(); }).message,
              testing::HasSubstr("has failed: 'x' is under way already"));
  EXPECT_EQ(job.lasting().steps.voted, 1U);
  stream.open();
  eager.wait();
  graph.run();
  EXPECT_TRUE(job.commit());
  EXPECT_EQ(job.lasting().steps.voted, 2U);
}

}  // namespace
}  // namespace hora
