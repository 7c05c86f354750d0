// SPDX-License-Identifier: Apache-2.0
// Tensors on GPUs, in jobs whose ranks are threads and whose GPUs are queues.
#include "core/gpu/gpu_lanes.h"

#include "core/base/memory.h"
#include "test/support/local_job.h"
#include "test/support/queued_gpu.h"
#include "test/support/thrown.h"

#include <gmock/gmock.h>

#include <atomic>
#include <limits>
#include <optional>

namespace hora {
namespace {

/// This rank's part of a job of `size` ranks, each with a GPU.
Runtime join_with_gpu(local::LocalGroup& group, int rank, int size, Config config = {},
                      const NcclModule& module = queued_nccl()) {
  config.rank = config.local_rank = rank;
  config.size = config.local_size = size;
  World world = group.join(rank);
  world.gpu_module = &module;
  return {std::move(world), config};
}

/// How tensors move: HORA_GPU_OPERATIONS.
class GpuJob : public testing::TestWithParam<const char*> {
 protected:
  /// `shared`: all ranks use one GPU.
  static void run(int size, const std::string& operations, const std::function<void(Runtime&)>& rank_main,
                  Config config = {}) {
    local::LocalGroup group(size);
    config.gpu_operations = operations;
    config.fusion_threshold = config.gpu_fusion_threshold = 4096;
    run_ranks(size, [&](int rank) {
      Runtime runtime = join_with_gpu(group, rank, size, config);
      rank_main(runtime);
    });
  }
  static void run(int size, const std::function<void(Runtime&)>& rank_main) {
    run(size, GetParam(), rank_main);
  }
};

Entry on_gpu(const Runtime& hora, Entry entry) {
  entry.device = {DeviceKind::cuda, hora.rank()};
  return entry;
}

template <typename T>
Entry on_gpu(const Runtime& hora, Operation operation, const std::string& name, DType dtype,
             std::vector<T>& data) {
  return on_gpu(hora, in_place(operation, name, dtype, data));
}

TEST_P(GpuJob, ReducesSmallAndLargeTensorsTogetherAndScalesThem) {
  run(3, [](Runtime& hora) {
    for (int turn = 0; turn < 3; ++turn) {
      std::vector<std::vector<float>> tensors;
      std::vector<Entry> entries;
      for (const std::size_t size : {1, 7, 300, 5000})
        tensors.emplace_back(size, static_cast<float>(hora.rank() + 1));
      for (auto& tensor : tensors) {
        entries.push_back(
            on_gpu(hora, Operation::allreduce, std::to_string(tensor.size()), DType::float32, tensor));
        entries.back().op = ReduceOp::average;
        entries.back().prescale = 2;
      }
      for (const auto& handle : hora.submit(entries)) handle.wait();
      for (const auto& tensor : tensors) EXPECT_EQ(tensor, std::vector<float>(tensor.size(), 4.0F));
    }
  });
}

TEST_P(GpuJob, NarrowsOnTheWireAndSaysWhetherAllIsFinite) {
  run(2, [](Runtime& hora) {
    for (const float value : {1.5F, 70000.0F}) {
      std::vector<float> x(5000, value);
      Entry entry = on_gpu(hora, Operation::allreduce, "x", DType::float32, x);
      entry.wire = DType::float16;
      entry.check_finite = true;
      EXPECT_EQ(hora.submit(entry).wait().finite, value < 60000) << value;
    }
    std::vector<double> y(3, hora.rank() == 1 ? std::numeric_limits<double>::quiet_NaN() : 1.0);
    Entry entry = on_gpu(hora, Operation::allreduce, "y", DType::float64, y);
    EXPECT_TRUE(hora.submit(entry).wait().finite) << "nobody has asked";
    entry.check_finite = true;
    EXPECT_FALSE(hora.submit(entry).wait().finite);
  });
}

TEST_P(GpuJob, DoesWhatNcclCannotByWayOfTheHost) {
  run(3, [](Runtime& hora) {
    std::vector<std::int16_t> shorts(5, static_cast<std::int16_t>(hora.rank() + 1));
    hora.submit(on_gpu(hora, Operation::allreduce, "int16", DType::int16, shorts)).wait();
    EXPECT_EQ(shorts, std::vector<std::int16_t>(5, 6));
    std::vector<std::int64_t> mean(5, 10 * hora.rank() + 1);
    Entry average = on_gpu(hora, Operation::allreduce, "mean", DType::int64, mean);
    average.op = ReduceOp::average;
    hora.submit(average).wait();
    EXPECT_EQ(mean, std::vector<std::int64_t>(5, 11));
    std::vector<float> prefix(4, 1);
    hora.submit(on_gpu(hora, Operation::scan, "prefix", DType::float32, prefix)).wait();
    EXPECT_EQ(prefix, std::vector<float>(4, static_cast<float>(hora.rank() + 1)));
    std::vector<float> equal(4, 3);
    Entry adasum = on_gpu(hora, Operation::allreduce, "adasum", DType::float32, equal);
    adasum.op = ReduceOp::adasum;
    adasum.check_finite = true;
    EXPECT_TRUE(hora.submit(adasum).wait().finite);
    EXPECT_EQ(equal, std::vector<float>(4, 3));
  });
}

TEST_P(GpuJob, BroadcastsGathersExchangesAndScatters) {
  run(3, [](Runtime& hora) {
    const auto rank = static_cast<std::size_t>(hora.rank());
    std::vector<std::int32_t> x(2000, hora.rank());
    Entry broadcast = on_gpu(hora, Operation::broadcast, "b", DType::int32, x);
    broadcast.root = 2;
    hora.submit(broadcast).wait();
    EXPECT_EQ(x, std::vector<std::int32_t>(2000, 2));

    std::vector<std::int32_t> out;
    const auto fill = [&](const std::vector<std::int64_t>& shape) {
      out.assign(static_cast<std::size_t>(shape.front()), -1);
      return out.data();
    };
    std::vector<std::int32_t> mine(rank, hora.rank());
    Entry gather = on_gpu(hora, Operation::allgather, "g", DType::int32, mine);
    gather.output = nullptr;
    gather.allocate = fill;
    hora.submit(gather).wait();
    EXPECT_EQ(out, (std::vector<std::int32_t>{1, 2, 2}));

    std::vector<std::int32_t> sent{10 * hora.rank(), 10 * hora.rank() + 1, 10 * hora.rank() + 2};
    Entry exchange = on_gpu(hora, Operation::alltoall, "a", DType::int32, sent);
    exchange.output = nullptr;
    exchange.allocate = fill;
    hora.submit(exchange).wait();
    EXPECT_EQ(out, (std::vector<std::int32_t>{hora.rank(), 10 + hora.rank(), 20 + hora.rank()}));

    std::vector<float> parts{1, 2, 3, 4};
    std::vector<float> part(2);
    Entry scatter = on_gpu(hora, Operation::reducescatter, "s", DType::float32, parts);
    scatter.output = part.data();
    hora.submit(scatter).wait();
    EXPECT_EQ(part.front(), (std::vector<float>{3, 9, 12})[rank]);
    std::vector<float> sum(4);
    Entry reduce = on_gpu(hora, Operation::reduce, "r", DType::float32, parts);
    reduce.root = 1;
    reduce.output = sum.data();
    hora.submit(reduce).wait();
    EXPECT_EQ(sum, rank == 1 ? (std::vector<float>{3, 6, 9, 12}) : std::vector<float>(4));
  });
}

TEST_P(GpuJob, TakesMemoryForAnOutputThatWaitsForNothing) {
  Gate gate;
  gate.open();
  std::atomic<bool> submitted = false;
  run(2, [&](Runtime& hora) {
    std::shared_ptr<std::byte> output;
    std::vector<std::int64_t> rows;
    std::vector<std::int32_t> mine(3, hora.rank());
    Entry gather = on_gpu(hora, Operation::allgather, "g", DType::int32, mine);
    gather.output = nullptr;
    gather.accept = [&](std::shared_ptr<std::byte> memory, const std::vector<std::int64_t>& shape) {
      output = std::move(memory);
      rows = shape;
    };
    if (hora.rank() == 0) gather.stream = &gate;
    while (hora.rank() == 1 && !submitted) std::this_thread::yield();
    const Handle handle = hora.submit(gather);
    if (hora.rank() == 0)
      gate.close();  // what the user puts there after the submission is not Hora's business
    submitted = true;
    handle.wait();
    ASSERT_EQ(rows, std::vector<std::int64_t>{6});
    const auto* at = reinterpret_cast<const std::int32_t*>(output.get());
    EXPECT_EQ(std::vector<std::int32_t>(at, at + 6), (std::vector<std::int32_t>{0, 0, 0, 1, 1, 1}));
  });
}

TEST_P(GpuJob, KeepsTensorsOfTheHostAndOfGpusApart) {
  run(2, [](Runtime& hora) {
    std::vector<float> host(10, 1);
    std::vector<float> gpu(10, 2);
    const Handle first = hora.submit(in_place(Operation::allreduce, "host", DType::float32, host));
    const Handle second = hora.submit(on_gpu(hora, Operation::allreduce, "gpu", DType::float32, gpu));
    first.wait();
    second.wait();
    EXPECT_EQ(host, std::vector<float>(10, 2));
    EXPECT_EQ(gpu, std::vector<float>(10, 4));
    std::vector<float> x(3);
    Entry mixed = in_place(Operation::allreduce, "mixed", DType::float32, x);
    if (hora.rank() == 1) mixed = on_gpu(hora, mixed);
    EXPECT_EQ(thrown([&] { hora.submit(mixed).wait(); }).message,
              "'mixed': device differs between ranks: CPU on rank 0, GPU on rank 1");
  });
}

TEST_P(GpuJob, HasProcessSetsBeforeAndAfterItsFirstUse) {
  run(3, [](Runtime& hora) {
    const int early = hora.add_process_set({0, 2});
    const auto reduce = [&](int set, float expected) {
      std::vector<float> x(10, static_cast<float>(hora.rank() + 1));
      Entry entry = on_gpu(hora, Operation::allreduce, "x", DType::float32, x);
      entry.process_set = set;
      hora.submit(entry).wait();
      EXPECT_EQ(x, std::vector<float>(10, expected));
    };
    if (hora.rank() != 1) reduce(early, 4);
    reduce(0, 6);
    const int late = hora.add_process_set({0, 1});
    if (hora.rank() != 2) reduce(late, 3);
    hora.remove_process_set(early);
    reduce(0, 6);
  });
}

TEST_P(GpuJob, GoesOnWithoutRanksThatHaveJoined) {
  run(3, [](Runtime& hora) {
    if (hora.rank() != 2) {  // rank 2 has never used a GPU, and uses that of its local rank
      std::vector<float> x(10, 1);
      hora.submit(on_gpu(hora, Operation::allreduce, "x", DType::float32, x)).wait();
      EXPECT_EQ(x, std::vector<float>(10, 2));
      std::vector<float> least(10, 5);
      Entry min = on_gpu(hora, Operation::allreduce, "min", DType::float32, least);
      min.op = ReduceOp::min;
      hora.submit(min).wait();
      EXPECT_EQ(least, std::vector<float>(10, 5));
    }
    hora.join();
  });
}

TEST_P(GpuJob, LetsANameBeUsedAgainAsSoonAsItsWorkIsInTheQueue) {
  run(2, [](Runtime& hora) {
    std::vector<float> x(10, 1);
    for (int turn = 0; turn < 50; ++turn)
      hora.submit(on_gpu(hora, Operation::allreduce, "x", DType::float32, x)).wait_on(nullptr);
    std::vector<float> y(10, 1);
    hora.submit(on_gpu(hora, Operation::allreduce, "y", DType::float32, y)).wait();
    EXPECT_EQ(x, std::vector<float>(10, static_cast<float>(std::uint64_t{1} << 50))) << "y came behind it";
  });
}

TEST_P(GpuJob, RefusesASecondGpuAndOneThatIsNotThere) {
  run(1, [](Runtime& hora) {
    std::vector<float> x(10, 1);
    Entry entry = in_place(Operation::allreduce, "x", DType::float32, x);
    entry.device = {DeviceKind::cuda, 4};
    EXPECT_EQ(thrown([&] { hora.submit(entry); }).message,
              "'x' on cuda:4: there are 4 GPUs here, cuda:0 to cuda:3");
    entry.device.index = 2;
    hora.submit(entry).wait();
    entry.device.index = 0;
    EXPECT_THAT(thrown([&] { hora.submit(entry); }).message,
                testing::StartsWith("'x' on cuda:0: this rank uses cuda:2, and a rank uses one GPU"));
    EXPECT_THAT(hora.memory_report(), testing::StartsWith("cuda:2 (a queue)"));
  });
}

INSTANTIATE_TEST_SUITE_P(All, GpuJob, testing::Values("auto", "nccl", "staged"),
                         [](const auto& made) { return std::string(made.param); });

TEST(GpuLanes, GetWhatTheHostIsAheadWithInOneBatchWhenOneOfTwoHasEnded) {
  local::LocalGroup group(2);
  run_ranks(2, [&](int rank) {
    Gate computing;
    std::vector<std::vector<float>> tensors(6, {1.0F});
    Runtime hora = join_with_gpu(group, rank, 2);
    const auto submit = [&](std::size_t number) {
      Entry entry =
          on_gpu(hora, Operation::allreduce, "t" + std::to_string(number), DType::float32, tensors[number]);
      entry.stream = &computing;
      return hora.submit(std::move(entry));
    };
    for (const std::size_t number : {0, 1})
      EXPECT_TRUE(submit(number).wait_launched_for(std::chrono::seconds(60)));
    std::vector<Handle> ahead;
    for (const std::size_t number : {2, 3, 4, 5}) ahead.push_back(submit(number));
    EXPECT_FALSE(ahead.front().wait_launched_for(std::chrono::milliseconds(20)));
    computing.open();
    for (const auto& handle : ahead) handle.wait();
    for (const auto& tensor : tensors) EXPECT_EQ(tensor, std::vector<float>{2.0F});
  });
}

TEST(GpuLanes, FailTheTensorsAndNotTheJobWhereTwoRanksShareAGpuAndNcclIsWanted) {
  local::LocalGroup group(2);
  run_ranks(2, [&](int rank) {
    Config config;
    config.gpu_operations = "nccl";
    Runtime hora = join_with_gpu(group, rank, 2, config);
    std::vector<float> x(10, 1);
    Entry entry = in_place(Operation::allreduce, "x", DType::float32, x);
    for (int turn = 0; turn < 2; ++turn) {
      entry.device = {DeviceKind::cuda, 0};
      EXPECT_THAT(thrown([&] { hora.submit(entry).wait(); }).message,
                  testing::StartsWith("'x': HORA_GPU_OPERATIONS=nccl, but ranks 0 and 1 share one GPU"));
      entry.device = {};
      hora.submit(entry).wait();
    }
  });
}

/// How often `counting_nccl` has been asked for an id.
std::atomic<int> ids_made{0};

/// The module, which counts ids.
NcclModule counting_nccl() {
  NcclModule module = queued_nccl();
  module.make_id = [] {
    ++ids_made;
    return queued_nccl().make_id();
  };
  return module;
}

/// A job of three ranks, each with a GPU, where all reduce and some do in a group of their own.
void use_process_sets(const NcclModule& module, const std::string& operations) {
  local::LocalGroup group(3);
  run_ranks(3, [&](int rank) {
    Config config;
    config.gpu_operations = operations;
    Runtime hora = join_with_gpu(group, rank, 3, config, module);
    const auto reduce = [&](int set, float expected) {
      std::vector<float> x(10, static_cast<float>(rank + 1));
      Entry entry = on_gpu(hora, Operation::allreduce, "x", DType::float32, x);
      entry.process_set = set;
      hora.submit(entry).wait();
      EXPECT_EQ(x, std::vector<float>(10, expected));
    };
    reduce(0, 6);
    const int some = hora.add_process_set({0, 2});
    if (rank != 1) reduce(some, 4);
  });
}

TEST(GpuLanes, MakeAnIdForACommunicatorThatNeedsOneAlone) {
  const NcclModule module = counting_nccl();
  for (const auto& [operations, ids] : {std::pair("auto", 1), std::pair("staged", 0)}) {
    ids_made = 0;
    use_process_sets(module, operations);
    EXPECT_EQ(ids_made, ids) << operations;
  }
}

TEST(GpuLanes, GoByWayOfTheHostWhereNcclHasNoNetwork) {
  NcclModule module = queued_nccl();
  module.make_id = []() -> NcclId { throw Error(Code::unavailable, "no network"); };
  use_process_sets(module, "auto");
}

void reduce_on_gpus(Runtime& hora, float sum = 6) {
  std::vector<float> x(10, static_cast<float>(hora.rank() + 1));
  hora.submit(on_gpu(hora, Operation::allreduce, "x", DType::float32, x)).wait();
  EXPECT_EQ(x, std::vector<float>(10, sum));
}

/// NCCL's lane of a rank with one other rank on its host, which connects no more.
class LaneWithinAHost final : public NcclLane {
 public:
  explicit LaneWithinAHost(std::unique_ptr<NcclLane> inner) : inner_(std::move(inner)) {}
  std::unique_ptr<Collective> connect(const NcclId& id, int place, int places) override {
    EXPECT_EQ(places, 2) << "the host's ranks alone";
    return inner_->connect(id, place, places);
  }
  void check() override { inner_->check(); }
  void stop(const Status& why) noexcept override { inner_->stop(why); }
  bool abort() noexcept override { return inner_->abort(); }

 private:
  std::unique_ptr<NcclLane> inner_;
};

/// Four ranks on two hosts do everything on their GPUs, and in process sets: so nothing is split.
void use_two_hosts(const Config& config) {
  NcclModule module = queued_nccl();
  module.make_lane = [](std::shared_ptr<Gpu> gpu, Stream& stream, const NcclOptions& options) {
    return std::unique_ptr<NcclLane>(
        std::make_unique<LaneWithinAHost>(queued_nccl().make_lane(std::move(gpu), stream, options)));
  };
  local::LocalGroup group(4);
  run_ranks(4, [&](int rank) {
    Config own = config;
    own.nccl_host_id = std::to_string(rank % 2);
    Runtime hora = join_with_gpu(group, rank, 4, own, module);
    const auto reduced = [&](int set, DType wire) {
      std::vector<float> x(5000, static_cast<float>(rank + 1));
      Entry entry = on_gpu(hora, Operation::allreduce, "sum", DType::float32, x);
      entry.process_set = set;
      entry.wire = wire;
      hora.submit(entry).wait();
      return x;
    };
    for (const DType wire : {DType::float32, DType::float16, DType::float8_e4m3fn})
      EXPECT_EQ(reduced(0, wire), std::vector<float>(5000, 10));
    const int one_host = hora.add_process_set({1, 3});
    if (rank % 2 == 1) {
      EXPECT_EQ(reduced(one_host, DType::float32), std::vector<float>(5000, 6));
    }

    std::vector<float> x(5000, static_cast<float>(rank));
    Entry broadcast = on_gpu(hora, Operation::broadcast, "b", DType::float32, x);
    broadcast.root = 3;
    hora.submit(broadcast).wait();
    EXPECT_EQ(x, std::vector<float>(5000, 3));
    std::vector<float> out(4);
    for (const Operation operation : {Operation::allgather, Operation::alltoall}) {
      std::vector<float> sent(operation == Operation::allgather ? 1 : 4, static_cast<float>(rank));
      Entry entry = on_gpu(hora, operation, "all", DType::float32, sent);
      entry.output = nullptr;
      entry.allocate = [&](const auto& /*shape*/) { return out.data(); };
      hora.submit(entry).wait();
      EXPECT_EQ(out, (std::vector<float>{0, 1, 2, 3}));
    }
    std::vector<float> parts{0, 1, 2, 3};
    std::vector<float> part(1);
    for (const DType wire : {DType::float32, DType::float8_e4m3fn}) {
      Entry scatter = on_gpu(hora, Operation::reducescatter, "s", DType::float32, parts);
      scatter.output = part.data();
      scatter.wire = wire;
      hora.submit(scatter).wait();
      EXPECT_EQ(part, std::vector<float>(1, 4 * static_cast<float>(rank)));
    }
  });
}

TEST(GpuLanes, HaveNcclMoveNothingBetweenHostsWhereItIsNotWanted) {
  Config hierarchical;
  hierarchical.gpu_operations = "hierarchical";
  use_two_hosts(hierarchical);
  Config encrypted;
  encrypted.encryption = "all";
  use_two_hosts(encrypted);
}

TEST(GpuLanes, AddAProcessSetWhileOneGpuWaitsForAnInput) {
  local::LocalGroup group(2);
  run_ranks(2, [&](int rank) {
    Gate gate;
    gate.open();
    Runtime hora = join_with_gpu(group, rank, 2);
    reduce_on_gpus(hora, 3);
    const int alone = hora.add_process_set({0});
    std::vector<float> x(10, 1);
    Entry entry = on_gpu(hora, Operation::allreduce, "late", DType::float32, x);
    entry.process_set = alone;
    entry.stream = &gate;
    std::optional<std::jthread> computing;
    if (rank == 0) {
      gate.close();
      hora.submit(entry).wait_on(nullptr);
      computing.emplace([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(1500));  // longer than NCCL's lane waits
        gate.open();
      });
    }
    EXPECT_NE(hora.add_process_set({1}), alone);
    reduce_on_gpus(hora, 3);
  });
}

/// Afterwards a graph may run, and the stand-ins' memory cannot be freed without waiting for it.
TEST(GpuLanes, EndAJoinWhenNoStandInIsUnderWayAnyMore) {
  local::LocalGroup group(2);
  Gate gate;
  run_ranks(2, [&](int rank) {
    Runtime hora = join_with_gpu(group, rank, 2);
    std::vector<float> x(10, 1);
    Entry entry = on_gpu(hora, Operation::allreduce, "late", DType::float32, x);
    if (rank == 1) entry.stream = &gate;  // which holds up what comes behind it
    hora.submit(entry).wait_on(nullptr);
    std::vector<float> y(10, 1);
    if (rank == 0) hora.submit(on_gpu(hora, Operation::allreduce, "y", DType::float32, y)).wait_on(nullptr);
    std::optional<std::jthread> computing;
    if (rank == 1) {
      computing.emplace([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(200));  // a join that does not wait is faster
        gate.open();
      });
    }
    hora.join();
    EXPECT_TRUE(gate.is_open());
  });
}

/// A job of three ranks that goes on with other ranks than before.
void go_on(const std::function<void(Runtime&)>& rank_main) {
  local::LocalGroup group(3);
  run_ranks(3, [&](int rank) {
    Config config;
    config.rank = config.local_rank = rank;
    config.size = config.local_size = 3;
    World world = group.join(rank);
    world.gpu_module = &queued_nccl();
    world.membership.generation = 2;
    Runtime hora(std::move(world), config);
    rank_main(hora);
  });
}

TEST(GpuLanes, GoByWayOfTheHostUntilNcclIsConnectedAnew) {
  const HeldConnections held;
  const int before = queued_nccl_calls();
  go_on([&](Runtime& hora) {
    for (int turn = 0; turn < 5; ++turn) reduce_on_gpus(hora);
    EXPECT_EQ(queued_nccl_calls(), before);
    std::vector<float> x(1);
    hora.submit(in_place(Operation::allreduce, "all have looked", DType::float32, x)).wait();
    HeldConnections::let_go();
    while (queued_nccl_calls() == before) reduce_on_gpus(hora);
    for (int turn = 0; turn < 5; ++turn) reduce_on_gpus(hora);
  });
}

TEST(GpuLanes, ConnectNcclAtOnceWhereAProcessSetUsesItAlready) {
  const int before = queued_nccl_calls();
  go_on([&](Runtime& hora) {
    const int some = hora.add_process_set({0, 2});
    std::vector<float> x(10, 1);
    Entry entry = on_gpu(hora, Operation::allreduce, "some", DType::float32, x);
    entry.process_set = some;
    if (hora.rank() != 1) hora.submit(std::move(entry)).wait();
    reduce_on_gpus(hora);
  });
  EXPECT_EQ(queued_nccl_calls() - before, 2 + 3);
}

TEST(GpuLanes, EndWhileNcclIsConnectedAnew) {
  const HeldConnections held;
  go_on([](Runtime& hora) { reduce_on_gpus(hora); });
  go_on([](Runtime& hora) {
    const Status status = thrown([&] {
      reduce_on_gpus(hora);
      if (hora.rank() == 1) return hora.shutdown("it is taken away");
      while (true) reduce_on_gpus(hora);
    });
    EXPECT_EQ(status.ok(), hora.rank() == 1);
  });
}

/// A gate for GPUs that are left behind.
Gate& lasting_gate() {
  const auto gate = std::make_shared<Gate>();
  keep_for_ever(gate);
  return *gate;
}

/// An allreduce that keeps its tensor, in case that the GPU never ends it.
Entry owning(const Runtime& hora, const std::string& name) {
  const auto x = std::make_shared<std::vector<float>>(10, 1.0F);
  Entry entry = on_gpu(hora, Operation::allreduce, name, DType::float32, *x);
  entry.done = [x](const Result&) {};
  return entry;
}

/// Three ranks have given "stuck" to their GPUs, where it waits for rank 2's input. Rank 2 dies for the
/// others; then `rank_main` is called with its handle, and `gate` opens for who has not opened it.
void lose_a_rank_in_mid_flight(Gate& gate, const std::function<void(Runtime&, const Handle&)>& rank_main) {
  local::LocalGroup group(3);
  std::atomic<int> launched = 0;
  std::atomic<int> done = 0;
  run_ranks(3, [&](int rank) {
    Runtime hora = join_with_gpu(group, rank, 3);
    Entry entry = owning(hora, "stuck");
    if (rank == 2) entry.stream = &gate;
    const Handle handle = hora.submit(entry);
    handle.wait_on(nullptr);
    ++launched;
    while (launched < 3) std::this_thread::yield();
    if (rank == 2) group.lose(2, "its process ended");
    rank_main(hora, handle);
    ++done;
    while (done < 3) std::this_thread::yield();
    gate.open();
  });
}

TEST(GpuLanes, EndsWhatIsInFlightWhenARankDies) {
  Gate gate;
  std::atomic<int> told = 0;
  lose_a_rank_in_mid_flight(gate, [&](Runtime& hora, const Handle& handle) {
    if (hora.rank() == 2) {
      while (told < 2) std::this_thread::yield();
      return gate.open();
    }
    const std::string why = thrown([&] { handle.wait(); }).message;
    EXPECT_THAT(why, testing::HasSubstr("rank 2 is gone: its process ended"));
    EXPECT_THAT(why, testing::HasSubstr("('stuck' holds undefined values)"));
    std::vector<float> x(10, 1);
    EXPECT_THAT(
        thrown([&] { hora.submit(on_gpu(hora, Operation::allreduce, "x", DType::float32, x)); }).message,
        testing::HasSubstr("rank 2 is gone"));
    ++told;
  });
}

TEST(GpuLanes, GivesTensorsBackEvenIfTheGpuNeverEnds) {
  Gate& gate = lasting_gate();  // rank 2's GPU waits for it until all have been told
  lose_a_rank_in_mid_flight(gate, [&](Runtime& /*hora*/, const Handle& handle) {
    EXPECT_THAT(thrown([&] { handle.wait(); }).message,
                testing::HasSubstr("('stuck' holds undefined values)"));
  });
}

TEST(GpuLanes, EndEveryTensorWithTheErrorOfAGpuThatIsBroken) {
  local::LocalGroup group(2);
  Gate gate;
  gate.break_gpu();
  std::atomic<int> done = 0;
  run_ranks(2, [&](int rank) {
    Runtime hora = join_with_gpu(group, rank, 2);
    std::vector<Entry> entries{owning(hora, "a"), owning(hora, "b")};
    if (rank == 0) entries.back().stream = &gate;
    const auto handles = hora.submit(entries);
    for (std::size_t i = 0; i < 2; ++i) {
      EXPECT_THAT(thrown([&] { handles[i].wait(); }).message,
                  testing::AllOf(testing::HasSubstr("an illegal address"),
                                 testing::HasSubstr(i == 0 ? "'a'" : "'b'")));
    }
    ++done;
    while (done < 2) std::this_thread::yield();
  });
}

TEST(GpuLanes, LetARankLeaveForAReasonThatWaitsForItsGpu) {
  local::LocalGroup group(2);
  Gate& gate = lasting_gate();
  run_ranks(2, [&](int rank) {
    Config config;
    config.gpu_operations = "staged";
    Runtime hora = join_with_gpu(group, rank, 2, config);
    Entry entry = owning(hora, "stuck");
    if (rank == 1) entry.stream = &gate;
    const Handle handle = hora.submit(entry);
    if (rank == 1) {  // whose engine waits for its GPU, and rank 0's for that
      while (!gate.is_awaited()) std::this_thread::yield();
      hora.shutdown("KeyboardInterrupt");
    }
    EXPECT_THAT(thrown([&] { handle.wait(); }).message,
                testing::HasSubstr(rank == 1 ? "KeyboardInterrupt" : "rank 1 failed: KeyboardInterrupt"));
    if (rank == 0) gate.open();
  });
}

TEST(GpuLanes, SayWhatHasBeenUnderWayForTooLong) {
  local::LocalGroup group(2);
  Gate& gate = lasting_gate();
  std::atomic<int> done = 0;
  run_ranks(2, [&](int rank) {
    Config config;
    if (rank == 0) config.operation_timeout = std::chrono::milliseconds(50);
    Runtime hora = join_with_gpu(group, rank, 2, config);
    Entry entry = owning(hora, "slow");
    if (rank == 1) entry.stream = &gate;
    const Handle handle = hora.submit(entry);
    const std::string why = thrown([&] { handle.wait(); }).message;
    EXPECT_THAT(why, testing::HasSubstr("allreduce of 'slow' has been under way on the GPU for 0.05 s"));
    EXPECT_THAT(why, testing::HasSubstr(rank == 0 ? "HORA_OPERATION_TIMEOUT" : "rank 0 failed"));
    ++done;
    while (done < 2) std::this_thread::yield();
    gate.open();
  });
}

}  // namespace
}  // namespace hora
