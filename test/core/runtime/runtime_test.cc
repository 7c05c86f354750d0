// SPDX-License-Identifier: Apache-2.0
// The guarantees to users, in whole jobs whose ranks are threads.
#include <hora/hora.h>

#include "test/support/files.h"
#include "test/support/local_job.h"
#include "test/support/thrown.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <future>
#include <map>
#include <optional>
#include <random>
#include <thread>

namespace hora {
namespace {

TEST(Runtime, ReducesInPlaceAndOutOfPlace) {
  run_local_job(3, [](Runtime& hora) {
    std::vector<float> in(10, static_cast<float>(hora.rank()));
    std::vector<float> out(10);
    Entry entry = in_place(Operation::allreduce, "x", DType::float32, in);
    entry.output = out.data();
    const Result result = hora.submit(entry).wait();
    EXPECT_EQ(result.shape, (std::vector<std::int64_t>{10}));
    EXPECT_EQ(out, std::vector<float>(10, 3.0F));
    EXPECT_EQ(in, std::vector<float>(10, static_cast<float>(hora.rank())));
    hora.submit(in_place(Operation::allreduce, "x", DType::float32, in)).wait();
    EXPECT_EQ(in, out);
  });
}

TEST(Runtime, ReducingOverlapsWithComputingUnlessRanksOfOneHostHaveNoCoreForIt) {
  const auto expect = [](bool overlaps) {
    return [overlaps](Runtime& hora) { EXPECT_EQ(hora.can_overlap(), overlaps); };
  };
  run_local_job(2, expect(true), {}, false);
  const OneCore one;
  run_local_job(2, expect(false));
  run_local_job(1, expect(true));  // which reduces nothing
}

TEST(Runtime, CopiesForLater) {
  run_local_job(1, [](Runtime& hora) {
    for (const std::size_t bytes : {std::size_t{0}, std::size_t{5}, std::size_t{300'000}}) {
      const auto place = hora.allocate(bytes);
      const std::vector<std::byte> made(bytes, std::byte{7});
      for (int call = 0; call < 40; ++call) {  // which take turns in how they copy
        std::fill_n(place.get(), bytes, std::byte{0});
        hora.copy_for_later(place.get(), made.data(), bytes);
        EXPECT_TRUE(std::equal(made.begin(), made.end(), place.get()));
      }
    }
  });
}

TEST(Runtime, AveragesAndScales) {
  run_local_job(2, [](Runtime& hora) {
    std::vector<double> x(3, hora.rank() + 1);
    Entry entry = in_place(Operation::allreduce, "mean", DType::float64, x);
    entry.op = ReduceOp::average;
    entry.prescale = 2;
    entry.postscale = 5;
    hora.submit(entry).wait();
    EXPECT_EQ(x, std::vector<double>(3, 15.0));
  });
}

TEST(Runtime, BroadcastsGathersAndMeets) {
  run_local_job(3, [](Runtime& hora) {
    std::vector<std::int32_t> x(5, hora.rank());
    Entry broadcast = in_place(Operation::broadcast, "b", DType::int32, x);
    broadcast.root = 2;
    hora.submit(broadcast).wait();
    EXPECT_EQ(x, std::vector<std::int32_t>(5, 2));

    const std::vector<std::int32_t> mine(static_cast<std::size_t>(hora.rank()) * 2, hora.rank());
    std::vector<std::int32_t> all;
    Entry gather;
    gather.operation = Operation::allgather;
    gather.name = "g";
    gather.dtype = DType::int32;
    gather.shape = {hora.rank(), 2};
    gather.input = mine.data();
    gather.allocate = [&](const std::vector<std::int64_t>& shape) {
      all.resize(static_cast<std::size_t>(shape[0] * shape[1]));
      return all.data();
    };
    EXPECT_EQ(hora.submit(gather).wait().shape, (std::vector<std::int64_t>{3, 2}));
    EXPECT_EQ(all, (std::vector<std::int32_t>{1, 1, 2, 2, 2, 2}));

    Entry barrier;
    barrier.operation = Operation::barrier;
    barrier.name = "meet";
    hora.submit(barrier).wait();
  });
}

TEST(Runtime, TakesAnySubmissionOrderOnAnyRank) {
  run_local_job(4, [](Runtime& hora) {
    std::mt19937 random(static_cast<unsigned>(hora.rank()));
    for (int step = 0; step < 30; ++step) {
      std::vector<std::vector<float>> tensors;
      for (std::size_t i = 0; i < 40; ++i)
        tensors.emplace_back(i * 13 % 97, static_cast<float>(hora.rank() + 1));
      std::vector<std::size_t> order(tensors.size());
      for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
      std::shuffle(order.begin(), order.end(), random);
      std::vector<Handle> handles;
      for (const auto i : order) {
        handles.push_back(
            hora.submit(in_place(Operation::allreduce, "t" + std::to_string(i), DType::float32, tensors[i])));
      }
      for (const auto& handle : handles) handle.wait();
      for (const auto& tensor : tensors) {
        for (const float x : tensor) ASSERT_EQ(x, 10.0F);
      }
    }
  });
}

TEST(Runtime, ResultsDoNotDependOnFusion) {
  std::vector<std::vector<float>> results;
  for (const std::size_t threshold : {1, 4096, 1 << 22}) {
    Config config;
    config.fusion_threshold = threshold;
    run_local_job(
        3,
        [&](Runtime& hora) {
          std::mt19937 random(static_cast<unsigned>(hora.rank()) + 5);
          std::normal_distribution<float> normal;
          std::vector<std::vector<float>> tensors(20, std::vector<float>(500));
          for (auto& tensor : tensors) {
            for (auto& x : tensor) x = normal(random);
          }
          std::vector<Handle> handles;
          for (std::size_t i = 0; i < tensors.size(); ++i) {
            Entry entry = in_place(Operation::allreduce, std::to_string(i), DType::float32, tensors[i]);
            entry.wire = i % 2 == 0 ? DType::bfloat16 : DType::float32;
            handles.push_back(hora.submit(entry));
          }
          for (const auto& handle : handles) handle.wait();
          if (hora.rank() != 0) return;
          results.emplace_back();
          for (const auto& tensor : tensors)
            results.back().insert(results.back().end(), tensor.begin(), tensor.end());
        },
        config);
  }
  EXPECT_EQ(results[0], results[1]);
  EXPECT_EQ(results[0], results[2]);
}

TEST(Runtime, CompressesOnTheWire) {
  run_local_job(2, [](Runtime& hora) {
    for (const DType wire : {DType::float16, DType::bfloat16}) {
      for (const std::size_t count : {5, 3'000'000}) {
        std::vector<float> x(count, 1.0F + 0x1p-20F);  // the last place is lost on the wire
        Entry entry = in_place(Operation::allreduce, "w", DType::float32, x);
        entry.wire = wire;
        entry.op = ReduceOp::average;
        hora.submit(entry).wait();
        ASSERT_TRUE(std::all_of(x.begin(), x.end(), [](float y) { return y == 1.0F; }));
      }
    }
  });
}

/// Numbers that no block-scaled float has become those beside them, the same on all ranks, also for a rank
/// that brings nothing, and in groups.
TEST(Runtime, SendsBlockScaledFloats) {
  for (const int ranks : {1, 2, 3}) {
    run_local_job(ranks, [ranks](Runtime& hora) {
      for (const DType wire : {DType::float8_e4m3fn, DType::float8_e5m2}) {
        for (const std::size_t count : {0, 1, 33, 1'500'000}) {
          std::vector<float> x(count, 1.0F + 0x1p-9F);
          std::vector<double> y(count + 7, -3.0);
          Entry first = in_place(Operation::allreduce, "x", DType::float32, x);
          Entry second = in_place(Operation::allreduce, "y", DType::float64, y);
          first.wire = second.wire = wire;
          first.op = ReduceOp::average;
          second.op = ReduceOp::sum;
          second.absent = hora.rank() == 2;
          first.check_finite = true;
          const auto handles = hora.submit(std::vector<Entry>{first, second});
          EXPECT_TRUE(handles[0].wait().finite);
          handles[1].wait();
          ASSERT_TRUE(std::all_of(x.begin(), x.end(), [](float each) { return each == 1.0F; }));
          const double sum = -3.0 * std::min(ranks, 2);
          ASSERT_TRUE(std::all_of(y.begin(), y.end(), [=](double each) { return each == sum; }));
        }
      }
    });
  }
}

TEST(Runtime, SendsBlockScaledFloatsToTheRanksThatWantTheSum) {
  run_local_job(3, [](Runtime& hora) {
    for (const std::int64_t rows : {2, 3, 100'000}) {
      const auto own = scattered_rows(rows, 3)[static_cast<std::size_t>(hora.rank())];
      std::vector<float> x(static_cast<std::size_t>(rows * 5), 1.0F + 0x1p-9F);
      std::vector<float> part(static_cast<std::size_t>(own * 5));
      Entry scattered = in_place(Operation::reducescatter, "x", DType::float32, x);
      scattered.shape = {rows, 5};
      scattered.output = part.data();
      scattered.op = ReduceOp::sum;
      scattered.wire = DType::float8_e4m3fn;
      EXPECT_EQ(hora.submit(scattered).wait().shape, (std::vector<std::int64_t>{own, 5}));
      ASSERT_EQ(part, std::vector<float>(part.size(), 3.0F));

      std::vector<float> y(x.size(), 17.0F);  // travels as 16
      Entry reduced = in_place(Operation::reduce, "y", DType::float32, y);
      reduced.op = ReduceOp::sum;
      reduced.root = 1;
      reduced.wire = DType::float8_e5m2;
      hora.submit(reduced).wait();
      ASSERT_EQ(y, std::vector<float>(y.size(), hora.rank() == 1 ? 48.0F : 17.0F));
    }
  });
}

TEST(Runtime, ARankThatIsAbsentCountsAsZeros) {
  run_local_job(3, [](Runtime& hora) {
    std::vector<float> x(4, 6.0F);
    Entry entry = in_place(Operation::allreduce, "g", DType::float32, x);
    entry.op = ReduceOp::average;
    entry.absent = hora.rank() == 1;
    EXPECT_TRUE(hora.submit(entry).wait().contributed);
    EXPECT_EQ(x, std::vector<float>(4, 4.0F));
    entry.absent = true;
    EXPECT_FALSE(hora.submit(entry).wait().contributed);
    EXPECT_EQ(x, std::vector<float>(4, 4.0F));
  });
}

TEST(Runtime, RanksThatDisagreeGetTheSameErrorAndGoOn) {
  std::vector<std::string> texts(3);
  run_local_job(3, [&](Runtime& hora) {
    std::vector<float> x(hora.rank() == 1 ? 5 : 4);
    texts[static_cast<std::size_t>(hora.rank())] =
        thrown([&] { hora.submit(in_place(Operation::allreduce, "w", DType::float32, x)).wait(); }).message;
    std::vector<float> y(2, 1.0F);
    hora.submit(in_place(Operation::allreduce, "next", DType::float32, y)).wait();
    EXPECT_EQ(y, std::vector<float>(2, 3.0F));
  });
  EXPECT_EQ(texts[0], "'w': tensor differs between ranks: float32[4] on ranks 0 and 2, float32[5] on rank 1");
  EXPECT_EQ(texts[1], texts[0]);
  EXPECT_EQ(texts[2], texts[0]);
}

TEST(Runtime, ATensorThatARankCannotBringFailsOnAllWithItsReasonAndTheJobGoesOn) {
  run_local_job(3, [](Runtime& hora) {
    for (int step = 0; step < 40; ++step) {
      std::vector<float> values(5, static_cast<float>(hora.rank()));
      Entry entry = in_place(Operation::allreduce, "w", DType::float32, values);
      const bool fails = step % 10 == 9;
      if (fails && hora.rank() == 1) entry.failed_with = "backward() failed: bad batch";
      const Handle handle = hora.submit(entry);
      if (fails) {
        EXPECT_EQ(thrown([&] { handle.wait(); }),
                  (Status{Code::rank_failed, "'w': rank 1's backward() failed: bad batch"}));
        EXPECT_EQ(values, std::vector<float>(5, static_cast<float>(hora.rank()))) << "it is as it was";
      } else {
        handle.wait();
        EXPECT_EQ(values, std::vector<float>(5, 3.0F));
      }
    }
  });
}

TEST(Runtime, ANameThatIsUnderWayIsRefusedAndMayBeUsedAgainLater) {
  run_local_job(2, [](Runtime& hora) {
    std::vector<float> x(2, 1.0F);
    std::vector<float> y(2);
    if (hora.rank() == 0) {
      const Handle handle = hora.submit(in_place(Operation::allreduce, "x", DType::float32, x));
      const auto text =
          thrown([&] { hora.submit(in_place(Operation::allreduce, "x", DType::float32, y)); }).message;
      EXPECT_NE(text.find("'x' is under way already"), std::string::npos) << text;
      Entry go;
      go.operation = Operation::barrier;
      go.name = "go";
      hora.submit(go).wait();
      handle.wait();
    } else {
      Entry go;
      go.operation = Operation::barrier;
      go.name = "go";
      hora.submit(go).wait();
      hora.submit(in_place(Operation::allreduce, "x", DType::float32, x)).wait();
    }
    hora.submit(in_place(Operation::allreduce, "x", DType::float32, y)).wait();
  });
}

TEST(Runtime, ARankThatLeavesInOrderFailsWhatOthersStillWantOfIt) {
  run_local_job(2, [](Runtime& hora) {
    if (hora.rank() == 1) return hora.shutdown();
    std::vector<float> x(2);
    const auto text =
        thrown([&] { hora.submit(in_place(Operation::allreduce, "x", DType::float32, x)).wait(); }).message;
    EXPECT_THAT(text, testing::StartsWith("'x': rank 1 has left the job without submitting it\nSo far only"));
  });
}

TEST(Runtime, ARankThatLeavesForAReasonFailsTheJob) {
  run_local_job(2, [](Runtime& hora) {
    if (hora.rank() == 1) return hora.shutdown("ValueError: no data");
    std::vector<float> x(2);
    const auto text =
        thrown([&] { hora.submit(in_place(Operation::allreduce, "x", DType::float32, x)).wait(); }).message;
    EXPECT_EQ(text, "'x': rank 1 failed: ValueError: no data");
  });
}

TEST(Runtime, AfterTheEndItRefusesInTheCallersThread) {
  run_local_job(1, [](Runtime& hora) {
    hora.shutdown();
    hora.shutdown();
    std::vector<float> x(2);
    const auto text =
        thrown([&] { hora.submit(in_place(Operation::allreduce, "x", DType::float32, x)); }).message;
    EXPECT_NE(text.find("the job has ended"), std::string::npos);
  });
}

TEST(Runtime, ALostRankFailsEverythingOnAllOthersAndIsNamed) {
  const auto dumps = std::filesystem::path(testing::TempDir()) / ("hora-dumps-" + std::to_string(::getpid()));
  local::LocalGroup group(3);
  Config config;
  config.dump_directory = dumps;
  config.size = 3;
  testing::internal::CaptureStderr();
  run_ranks(3, [&](int rank) {
    if (rank == 2) {
      World world = group.join(2);  // it never takes part
      std::vector<float> x(2);
      group.lose(2, "its process ended");
      return;
    }
    Config mine = config;
    mine.rank = rank;
    Runtime hora(group.join(rank), mine);
    std::vector<float> x(2);
    const auto text =
        thrown([&] { hora.submit(in_place(Operation::allreduce, "x", DType::float32, x)).wait(); }).message;
    EXPECT_EQ(text, "'x': rank 2 is gone: its process ended");
  });
  testing::internal::GetCapturedStderr();
  const std::string json = text_of_file(dumps / "rank0.json");
  EXPECT_NE(json.find("\"message\":\"rank 2 is gone: its process ended\""), std::string::npos) << json;
  std::filesystem::remove_all(dumps);
}

TEST(Runtime, AForkedChildCannotUseItAndReleasesNothing) {
  run_local_job(2, [](Runtime& hora) {
    std::vector<float> x(2, 1.0F);
    const auto submit = [&](const char* name) {
      return hora.submit(in_place(Operation::allreduce, name, DType::float32, x));
    };
    Entry has_looked;
    has_looked.operation = Operation::barrier;
    has_looked.name = "rank 0 has looked";
    if (hora.rank() == 1) {
      hora.submit(has_looked).wait();
      submit("y").wait();
      return;
    }
    const Handle under_way = submit("y");
    const pid_t child = ::fork();
    if (child == 0) {
      const auto is_refused = [](const auto& ask) {
        return thrown(ask).message.find("was forked") != std::string::npos;
      };
      const bool good = is_refused([&] { submit("x"); }) && is_refused([&] { under_way.wait(); }) &&
                        is_refused([&] { under_way.wait_for(std::chrono::milliseconds(1)); });
      ::_exit(good ? 0 : 1);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
    hora.submit(has_looked).wait();
    under_way.wait();
  });
}

TEST(BlockingScope, LeavesNothingLyingIfItsThreadDoesNotWait) {
  run_local_job(1, [](Runtime& one) {
    run_local_job(1, [&](Runtime& two) {
      std::vector<float> x(1);
      std::vector<float> y(1);
      std::promise<void> first;
      std::promise<void> second;
      {
        const BlockingScope blocking;
        Entry to_one = in_place(Operation::allreduce, "x", DType::float32, x);
        to_one.done = [&](const Result&) { first.set_value(); };
        Entry to_two = in_place(Operation::allreduce, "y", DType::float32, y);
        to_two.done = [&](const Result&) { second.set_value(); };
        one.submit(std::move(to_one));
        two.submit(std::move(to_two));
      }
      for (auto* promise : {&first, &second})
        EXPECT_EQ(promise->get_future().wait_for(std::chrono::seconds(20)), std::future_status::ready);
    });
  });
}

TEST(Runtime, MemoryItLentOutlivesIt) {
  std::shared_ptr<std::byte> memory;
  run_local_job(1, [&](Runtime& hora) { memory = hora.allocate(100); });
  EXPECT_EQ(memory.get()[99], std::byte{0});
}

TEST(Runtime, DoneRunsExactlyOnceAlsoOnFailure) {
  std::atomic<int> done = 0;
  run_local_job(2, [&](Runtime& hora) {
    std::vector<float> x(static_cast<std::size_t>(hora.rank()) + 1);
    Entry entry = in_place(Operation::allreduce, "x", DType::float32, x);
    entry.done = [&](const Result& result) {
      EXPECT_EQ(result.status.code, Code::mismatch);
      done.fetch_add(1);
    };
    EXPECT_EQ(thrown([&] { hora.submit(entry).wait(); }).code, Code::mismatch);
  });
  EXPECT_EQ(done.load(), 2);
}

TEST(Runtime, WhatWasSubmittedBeforeTheShutdownIsStillDone) {
  for (int round = 0; round < 200; ++round) {
    run_local_job(2, [](Runtime& hora) {
      std::vector<float> x(2, 1.0F);
      const Handle handle = hora.submit(in_place(Operation::allreduce, "x", DType::float32, x));
      hora.shutdown();
      EXPECT_EQ(thrown([&] { handle.wait(); }).message, "");
      EXPECT_EQ(x, std::vector<float>(2, 2.0F));
    });
  }
}

Entry rows(Operation operation, const std::string& name, std::vector<float>& data,
           std::vector<float>& output) {
  Entry entry = in_place(operation, name, DType::float32, data);
  entry.output = nullptr;
  entry.allocate = [&output](const std::vector<std::int64_t>& shape) {
    output.resize(static_cast<std::size_t>(shape.front()));
    return output.data();
  };
  return entry;
}

TEST(Runtime, ExchangesRowsBySplits) {
  run_local_job(3, [](Runtime& hora) {
    const auto rank = static_cast<float>(hora.rank());
    std::vector<float> data{rank, rank + 10, rank + 20, rank + 30};
    std::vector<float> output;
    Entry entry = rows(Operation::alltoall, "t", data, output);
    entry.splits = {1, 0, 2};  // the last one stays
    const Result result = hora.submit(std::move(entry)).wait();
    const std::vector<std::vector<float>> expected{{0, 1, 2}, {}, {10, 20, 11, 21, 12, 22}};
    EXPECT_EQ(output, expected[static_cast<std::size_t>(hora.rank())]);
    const std::int64_t each = std::vector<std::int64_t>{1, 0, 2}[static_cast<std::size_t>(hora.rank())];
    EXPECT_EQ(result.rows, (std::vector<std::int64_t>(3, each)));
  });
}

TEST(Runtime, GathersIntoAnOutputOfTheCallersAndFailsAloneIfThatDoesNotFit) {
  run_local_job(3, [](Runtime& hora) {
    const std::vector<float> data(static_cast<std::size_t>(hora.rank()), static_cast<float>(hora.rank()));
    std::vector<float> output(4, -1);
    Entry entry;
    entry.operation = Operation::allgather;
    entry.name = "g";
    entry.shape = {hora.rank()};
    entry.input = data.data();
    entry.output = output.data();
    entry.output_rows = hora.rank() == 1 ? 4 : 3;
    const Handle handle = hora.submit(std::move(entry));
    if (hora.rank() == 1) {
      EXPECT_EQ(thrown([&] { handle.wait(); }),
                (Status{Code::mismatch, "'g': its output has 4 rows, but the result has 3"}));
      EXPECT_EQ(output, (std::vector<float>(4, -1)));
    } else {
      EXPECT_EQ(handle.wait().rows, (std::vector<std::int64_t>{0, 1, 2}));
      EXPECT_EQ(output, (std::vector<float>{1, 2, 2, -1}));
    }
  });
}

TEST(Runtime, ScattersUnevenRowsAndCompresses) {
  for (const DType wire : {DType::float32, DType::float16}) {
    run_local_job(3, [wire](Runtime& hora) {
      std::vector<float> data{1, 2, 3, 4, 5};
      std::vector<float> output(2);
      Entry entry = in_place(Operation::reducescatter, "r", DType::float32, data);
      entry.op = ReduceOp::average;
      entry.wire = wire;
      entry.output = output.data();
      const auto shape = hora.submit(std::move(entry)).wait().shape;
      const std::vector<std::vector<float>> expected{{1, 2}, {3, 4}, {5}};
      output.resize(static_cast<std::size_t>(shape.front()));
      EXPECT_EQ(output, expected[static_cast<std::size_t>(hora.rank())]);
    });
  }
}

TEST(Runtime, GathersRowsToTheRoot) {
  run_local_job(3, [](Runtime& hora) {
    std::vector<float> data(static_cast<std::size_t>(hora.rank()), static_cast<float>(hora.rank()));
    std::vector<float> output{-1};
    Entry entry = rows(Operation::gather, "g", data, output);
    entry.root = 1;
    const Result result = hora.submit(std::move(entry)).wait();
    EXPECT_EQ(result.rows, (std::vector<std::int64_t>{0, 1, 2}));
    EXPECT_EQ(result.shape, (std::vector<std::int64_t>{hora.rank() == 1 ? 3 : 0}));
    EXPECT_EQ(output, hora.rank() == 1 ? (std::vector<float>{1, 2, 2}) : std::vector<float>());
  });
}

TEST(Runtime, ScattersTheRootsRowsEvenlyOrBySplits) {
  run_local_job(3, [](Runtime& hora) {
    std::vector<float> data{1, 2, 3, 4};
    std::vector<float> output;
    Entry entry = rows(Operation::scatter, "s", data, output);
    entry.root = 2;
    if (hora.rank() != 2) entry.input = nullptr;
    EXPECT_EQ(hora.submit(entry).wait().rows, (std::vector<std::int64_t>{2, 1, 1}));
    const auto rank = static_cast<std::size_t>(hora.rank());
    EXPECT_EQ(output, (std::vector<std::vector<float>>{{1, 2}, {3}, {4}}[rank]));
    entry.splits = {0, 3, 0};  // the root's count
    EXPECT_EQ(hora.submit(entry).wait().rows, (std::vector<std::int64_t>{0, 3, 0}));
    EXPECT_EQ(output, (std::vector<std::vector<float>>{{}, {1, 2, 3}, {}}[rank]));
  });
}

TEST(Runtime, ReducesToTheRootByEveryOperation) {
  run_local_job(3, [](Runtime& hora) {
    const auto reduced = [&](ReduceOp op, DType wire) {
      std::vector<float> data{static_cast<float>(hora.rank() + 1), 3};
      std::vector<float> output{-1, -1};
      Entry entry = in_place(Operation::reduce, "r", DType::float32, data);
      entry.op = op;
      entry.wire = wire;
      entry.root = 2;
      entry.output = hora.rank() == 2 ? output.data() : nullptr;
      hora.submit(std::move(entry)).wait();
      return output;
    };
    const auto at_root = [&](std::vector<float> values) {
      return hora.rank() == 2 ? values : std::vector<float>{-1, -1};
    };
    EXPECT_EQ(reduced(ReduceOp::sum, DType::float32), at_root({6, 9}));
    EXPECT_EQ(reduced(ReduceOp::average, DType::float16), at_root({2, 3}));
    EXPECT_EQ(reduced(ReduceOp::max, DType::float32), at_root({3, 3}));
    EXPECT_EQ(reduced(ReduceOp::product, DType::float32), at_root({6, 27}));
  });
}

TEST(Runtime, ScansInAProcessSetInItsOrder) {
  run_local_job(4, [](Runtime& hora) {
    const int set = hora.add_process_set({1, 2, 3});
    if (hora.rank() == 0) return;
    std::vector<std::int32_t> data{hora.rank(), 1};
    Entry entry = in_place(Operation::scan, "s", DType::int32, data);
    entry.process_set = set;
    hora.submit(std::move(entry)).wait();
    const std::vector<std::vector<std::int32_t>> expected{{}, {1, 1}, {3, 2}, {6, 3}};
    EXPECT_EQ(data, expected[static_cast<std::size_t>(hora.rank())]);
  });
}

TEST(Runtime, ProcessSetsOverlapAndHaveNamesOfTheirOwn) {
  run_local_job(4, [](Runtime& hora) {
    const int even = hora.add_process_set({2, 0});
    const int low = hora.add_process_set({0, 1, 2});
    EXPECT_EQ(hora.process_sets(),
              (std::map<int, ProcessSet>{{0, {{0, 1, 2, 3}, ""}}, {1, {{0, 2}, ""}}, {2, {{0, 1, 2}, ""}}}));
    std::vector<Handle> handles;
    std::vector<std::vector<float>> data(3, {static_cast<float>(hora.rank() + 1)});
    const auto reduce = [&](std::size_t which, int set, const std::vector<int>& members) {
      if (std::find(members.begin(), members.end(), hora.rank()) == members.end()) return;
      Entry entry = in_place(Operation::allreduce, "same name", DType::float32, data[which]);
      entry.process_set = set;
      handles.push_back(hora.submit(std::move(entry)));
    };
    if (hora.rank() % 2 == 0) reduce(0, even, {0, 2});
    reduce(1, low, {0, 1, 2});
    reduce(2, 0, {0, 1, 2, 3});
    for (const auto& handle : handles) handle.wait();
    if (hora.rank() % 2 == 0) {
      EXPECT_EQ(data[0].front(), 4);
    }
    if (hora.rank() < 3) {
      EXPECT_EQ(data[1].front(), 6);
    }
    EXPECT_EQ(data[2].front(), 10);
    hora.remove_process_set(even);
    EXPECT_EQ(hora.process_sets().size(), 2u);
    EXPECT_EQ(hora.add_process_set({0, 2}), 3) << "a number is never given twice";
  });
}

TEST(Runtime, OnlyItsRanksMakeAProcessSetThatHasAName) {
  run_local_job(4, [](Runtime& hora) {
    const auto sum_in = [&](int set) {
      std::vector<float> data{static_cast<float>(hora.rank())};
      Entry entry = in_place(Operation::allreduce, "x", DType::float32, data);
      entry.op = ReduceOp::sum;
      entry.process_set = set;
      hora.run(std::move(entry));
      return data.front();
    };
    const int first = hora.add_process_set({0, 1, 2, 3}, "first");  // in the same order on all ranks
    if (hora.rank() % 2 == 1) {
      const int odd = hora.add_process_set({3, 1}, "odd");
      const int again = hora.add_process_set({1, 3}, "of the same ranks");
      EXPECT_NE(odd, again);
      EXPECT_EQ(hora.process_sets().at(odd), (ProcessSet{{1, 3}, "odd"}));
      EXPECT_EQ(sum_in(odd), 4.0F);
      hora.remove_process_set(odd);
      EXPECT_FALSE(hora.process_sets().contains(odd));
      EXPECT_GT(hora.add_process_set({1, 3}, "odd"), again);
      EXPECT_EQ(sum_in(again), 4.0F);
    }
    EXPECT_EQ(sum_in(first), 6.0F);
  });
}

TEST(Runtime, ARankRemovesAProcessSetThatHasANameWithoutTheOthers) {
  run_local_job(3, [](Runtime& hora) {
    const auto sum_in = [&](int set) {
      std::vector<float> data{1};
      Entry entry = in_place(Operation::allreduce, "x", DType::float32, data);
      entry.op = ReduceOp::sum;
      entry.process_set = set;
      hora.run(std::move(entry));
      return data.front();
    };
    for (int round = 0; round < 10; ++round) {
      if (hora.rank() < 2) {
        const int pair = hora.add_process_set({0, 1}, "pair");
        EXPECT_EQ(sum_in(pair), 2);
        if (hora.rank() == 0) {
          hora.remove_process_set(pair);
          EXPECT_FALSE(hora.process_sets().contains(pair));
        } else {
          EXPECT_EQ(
              thrown([&] { sum_in(pair); }).message,
              "'x': rank 0 has removed the process set without submitting it\nSo far only rank 1 called "
              "it; call it on all ranks of the set before one of them removes it.");
        }
        EXPECT_EQ(sum_in(0), 3);  // rank 1 removes the set after that
        if (hora.rank() == 1) hora.remove_process_set(pair);
      } else {
        EXPECT_EQ(sum_in(0), 3);
      }
    }
    const int all = hora.add_process_set({0, 1, 2}, "all");
    EXPECT_EQ(sum_in(0), 3);  // decided after the end of the last pair
    EXPECT_EQ(hora.process_sets().size(), 2u);
    hora.remove_process_set(all);
  });
}

TEST(Runtime, ProcessSetsOfOtherRanksMayHaveTheSameName) {
  run_local_job(4, [](Runtime& hora) {
    const bool low = hora.rank() < 2;
    const std::vector<int> own = low ? std::vector<int>{0, 1} : std::vector<int>{2, 3};
    const std::vector<int> others = low ? std::vector<int>{2, 3} : std::vector<int>{0, 1};
    const int pair = hora.add_process_set(own, "pair");
    EXPECT_EQ(hora.process_sets().at(pair), (ProcessSet{own, "pair"}));
    EXPECT_THAT(thrown([&] { hora.add_process_set(own, "pair"); }).message,
                testing::HasSubstr("there is one of these ranks with the name 'pair' already, number "));
    EXPECT_THAT(thrown([&] { hora.add_process_set(others, "pair"); }).message,
                testing::HasSubstr(" is not in it; only the ranks of a process set that has a name add it"));
  });
}

TEST(Runtime, BroadcastsInAProcessSetFromARankOfTheJob) {
  run_local_job(3, [](Runtime& hora) {
    const int set = hora.add_process_set({1, 2});
    if (hora.rank() == 0) return;
    std::vector<float> data{static_cast<float>(hora.rank())};
    Entry entry = in_place(Operation::broadcast, "b", DType::float32, data);
    entry.process_set = set;
    entry.root = 2;
    hora.submit(std::move(entry)).wait();
    EXPECT_EQ(data.front(), 2);
    Entry wrong = in_place(Operation::broadcast, "b", DType::float32, data);
    wrong.process_set = set;
    EXPECT_THROW(hora.submit(std::move(wrong)), Error) << "rank 0 is not in it";
  });
}

// Sets that overlap in a ring, each used by threads of its own, in no order: they never wait for each other
// for ever.
TEST(Runtime, ManyThreadsUseOverlappingProcessSets) {
  run_local_job(3, [](Runtime& hora) {
    const std::vector<std::vector<int>> members{{0, 1}, {1, 2}, {0, 2}};
    std::vector<std::thread> threads;
    for (const auto& ranks : members) {
      const int set = hora.add_process_set(ranks);
      if (std::find(ranks.begin(), ranks.end(), hora.rank()) == ranks.end()) continue;
      threads.emplace_back([&hora, set, sum = ranks[0] + ranks[1]] {
        for (int round = 0; round < 50; ++round) {
          std::vector<float> data(200, static_cast<float>(hora.rank()));
          Entry entry = in_place(Operation::allreduce, "w", DType::float32, data);
          entry.process_set = set;
          hora.submit(std::move(entry)).wait();
          ASSERT_EQ(data.back(), static_cast<float>(sum));
        }
      });
    }
    for (auto& thread : threads) thread.join();
  });
}

TEST(Runtime, WhatIsUnderWayInAProcessSetEndsWithIt) {
  run_local_job(3, [](Runtime& hora) {
    const int pair = hora.add_process_set({1, 0});
    std::vector<float> data{1};
    std::optional<Handle> waits;
    if (hora.rank() == 0) {
      Entry entry = in_place(Operation::allreduce, "never", DType::float32, data);
      entry.process_set = pair;
      waits = hora.submit(std::move(entry));
    }
    hora.remove_process_set(pair);
    if (!waits) return;
    try {
      waits->wait();
      FAIL();
    } catch (const Error& error) {
      EXPECT_STREQ(error.what(), "'never': process set 1 was removed");
    }
  });
}

TEST(Runtime, RanksThatMeanDifferentProcessSetsAreToldSoAndGoOn) {
  run_local_job(3, [](Runtime& hora) {
    try {
      static_cast<void>(
          hora.add_process_set(hora.rank() == 2 ? std::vector<int>{0, 2} : std::vector<int>{0, 1}));
      FAIL();
    } catch (const Error& error) {
      EXPECT_STREQ(
          error.what(),
          "'hora.add_process_set': process set differs between ranks: [0, 1] on ranks 0 and 1, [0, 2] on "
          "rank 2");
    }
    EXPECT_EQ(hora.add_process_set({0, 1}), 1);
  });
}

TEST(Runtime, AGroupOfOperationsIsTakenWholeOrNotAtAll) {
  run_local_job(2, [](Runtime& hora) {
    std::vector<float> a{1};
    std::vector<float> b{2};
    const auto pair = [&](const std::string& second) {
      return std::vector<Entry>{in_place(Operation::allreduce, "a", DType::float32, a),
                                in_place(Operation::allreduce, second, DType::float32, b)};
    };
    EXPECT_THROW(hora.submit(pair("a")), Error);
    for (const auto& handle : hora.submit(pair("b"))) handle.wait();
    EXPECT_EQ(a.front() + b.front(), 6);
    if (hora.rank() == 1) b.push_back(3);
    for (const auto& handle : hora.submit(pair("b"))) {
      EXPECT_THROW(handle.wait(), Error) << "b differs, so neither is done";
    }
    EXPECT_EQ(a.front(), 2);
  });
}

TEST(Runtime, RanksThatHaveJoinedTakePartWithZerosUntilAllHave) {
  for (const bool initial : {true, false}) {
    run_local_job(3, [initial](Runtime& hora) {
      for (int epoch = 0; epoch < 2; ++epoch) {
        const int batches = 5 + hora.rank() * (epoch == 0 ? 1 : -1);
        for (int batch = 0; batch < batches; ++batch) {
          std::vector<float> mean{6};
          std::vector<std::int32_t> least{hora.rank() + 4};
          std::vector<float> narrow(3000, 12);
          Entry first = in_place(Operation::allreduce, "mean", DType::float32, mean);
          first.op = ReduceOp::average;
          Entry second = in_place(Operation::allreduce, "min", DType::int32, least);
          second.op = ReduceOp::min;
          Entry third = in_place(Operation::allreduce, "narrow", DType::float32, narrow);
          third.wire = DType::float16;
          const std::vector<Handle> handles{hora.submit(std::move(first)), hora.submit(std::move(second)),
                                            hora.submit(std::move(third))};
          for (const auto& handle : handles) handle.wait();
          int present = 0;
          int smallest = 100;
          for (int rank = 0; rank < 3; ++rank) {
            if (batch >= 5 + rank * (epoch == 0 ? 1 : -1)) continue;
            ++present;
            smallest = std::min(smallest, rank + 4);
          }
          ASSERT_EQ(mean.front(), initial ? 6.0F * static_cast<float>(present) / 3.0F : 6.0F);
          ASSERT_EQ(least.front(), smallest);
          ASSERT_EQ(narrow.back(), 12.0F * static_cast<float>(present));
        }
        EXPECT_EQ(hora.join(initial), epoch == 0 ? 2 : 0);
      }
    });
  }
}

TEST(Runtime, JoinedRanksGatherNoRowsAndCannotBroadcast) {
  run_local_job(2, [](Runtime& hora) {
    if (hora.rank() == 0) {
      std::vector<float> data{1, 2};
      std::vector<float> output;
      EXPECT_EQ(hora.submit(rows(Operation::allgather, "g", data, output)).wait().rows,
                (std::vector<std::int64_t>{2, 0}));
      EXPECT_THROW(hora.submit(in_place(Operation::broadcast, "b", DType::float32, data)).wait(), Error);
    }
    EXPECT_EQ(hora.join(), 0);
  });
}

TEST(Runtime, SumsAdaptively) {
  run_local_job(3, [](Runtime& hora) {
    std::vector<double> data(3, 0.0);
    data[static_cast<std::size_t>(hora.rank())] = 2;  // orthogonal: the sum
    Entry entry = in_place(Operation::allreduce, "a", DType::float64, data);
    entry.op = ReduceOp::adasum;
    hora.submit(std::move(entry)).wait();
    EXPECT_EQ(data, (std::vector<double>{2, 2, 2}));
  });
}

TEST(ScatteredRows, GiveTheFirstRanksOneMore) {
  EXPECT_EQ(scattered_rows(7, 3), (std::vector<std::int64_t>{3, 2, 2}));
  EXPECT_EQ(scattered_rows(1, 3), (std::vector<std::int64_t>{1, 0, 0}));
}

TEST(Version, IsThreeNumbers) { EXPECT_NE(std::string(version()).find('.'), std::string::npos); }

TEST(Runtime, NumbersOperationsOfEachProcessSetByThemselvesAndTakesTheLastNumberBack) {
  run_local_job(1, [](Runtime& hora) {
    EXPECT_EQ(hora.next_number(), 1u);
    EXPECT_EQ(hora.next_number(), 2u);
    EXPECT_EQ(hora.next_number(1), 1u);
    hora.return_number(1);  // another one has been given since
    EXPECT_EQ(hora.next_number(), 3u);
    hora.return_number(3);
    EXPECT_EQ(hora.next_number(), 3u);
    EXPECT_EQ(hora.next_number(1), 2u);
  });
}

}  // namespace
}  // namespace hora
