// SPDX-License-Identifier: Apache-2.0
#include <hora/torch.h>

#include "test/support/local_job.h"
#include "test/support/thrown.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

namespace hora {
namespace {

constexpr int kRanks = 3;

/// float32 rows whose every element says who brought it, and in which row: 100 * rank + row.
torch::Tensor rows_of(int rank, std::int64_t rows, std::int64_t columns = 2) {
  return (torch::arange(rows, torch::kFloat32) + 100.0 * rank).unsqueeze(1).repeat({1, columns});
}

/// The Adasum of two tensors.
torch::Tensor adasum(const torch::Tensor& a, const torch::Tensor& b) {
  const auto dot = (a * b).sum();
  return (1 - dot / (2 * (a * a).sum())) * a + (1 - dot / (2 * (b * b).sum())) * b;
}

TEST(Collectives, TakeEveryDType) {
  run_local_job(2, [](Runtime& hora) {
    for (const auto dtype : {torch::kUInt8, torch::kInt8, torch::kInt16, torch::kInt32, torch::kInt64,
                             torch::kFloat16, torch::kBFloat16, torch::kFloat32, torch::kFloat64}) {
      const auto x = torch::full({2, 3}, hora.rank() + 1, dtype);
      const std::string name = torch::toString(dtype);
      EXPECT_TRUE(torch::equal(allreduce(hora, x, {.name = name, .op = ReduceOp::sum}),
                               torch::full({2, 3}, 3, dtype)));
      EXPECT_TRUE(torch::equal(broadcast(hora, x, 1, {.name = name}), torch::full({2, 3}, 2, dtype)));
      const auto gathered = allgather(hora, x.narrow(0, 0, hora.rank() + 1), {.name = name});
      EXPECT_EQ(gathered.sizes(), (std::vector<std::int64_t>{3, 3}));
      EXPECT_EQ(gathered.sum().item<double>(), 3 + 12);
      const auto received = alltoall(hora, x, {}, {.name = name}).output;
      EXPECT_TRUE(torch::equal(received.select(1, 0), torch::arange(1, 3).to(dtype)));
      EXPECT_TRUE(torch::equal(reducescatter(hora, x, {.name = name, .op = ReduceOp::sum}),
                               torch::full({1, 3}, 3, dtype)));
    }
    barrier(hora);
  });
}

/// The elements as they are in memory, where LibTorch compares few of their types.
torch::Tensor bytes_of(const torch::Tensor& tensor) {
  return torch::from_blob(tensor.data_ptr(), {static_cast<std::int64_t>(tensor.nbytes())}, torch::kUInt8);
}

TEST(Collectives, MoveElementsOfTypesThatHaveNoSum) {
  run_local_job(2, [](Runtime& hora) {
    for (const auto dtype : {torch::kUInt16, torch::kUInt32, torch::kUInt64, torch::kComplexFloat,
                             torch::kComplexDouble, torch::kFloat8_e4m3fn, torch::kFloat8_e4m3fnuz,
                             torch::kFloat8_e5m2, torch::kFloat8_e5m2fnuz, torch::kFloat8_e8m0fnu}) {
      const auto filled = [dtype](int rank) { return torch::full({2, 3}, rank + 1).to(dtype); };
      const std::string name = torch::toString(dtype);
      const auto moved = broadcast(hora, filled(hora.rank()), 1, {.name = name});
      EXPECT_EQ(moved.scalar_type(), dtype);
      EXPECT_TRUE(torch::equal(bytes_of(moved), bytes_of(filled(1)))) << name;
      EXPECT_TRUE(torch::equal(bytes_of(allgather(hora, filled(hora.rank()), {.name = name})),
                               torch::cat({bytes_of(filled(0)), bytes_of(filled(1))})))
          << name;
    }
  });
}

TEST(Collectives, AddComplexNumbersAlsoOfConjugates) {
  run_local_job(2, [](Runtime& hora) {
    const auto one = c10::complex<float>(1.0F, static_cast<float>(hora.rank()));
    const auto x = torch::full({3}, one, torch::kComplexFloat);
    const auto sum = torch::full({3}, c10::complex<float>(2.0F, 1.0F), torch::kComplexFloat);
    EXPECT_TRUE(torch::equal(allreduce(hora, x, {.op = ReduceOp::sum}), sum));
    EXPECT_TRUE(torch::equal(allreduce(hora, x.conj()), (sum / 2).conj().resolve_conj()));
  });
}

TEST(Collectives, TakeAnOpAloneNumbersAndTemporaries) {
  run_local_job(2, [](Runtime& hora) {
    const auto x = torch::full({3}, hora.rank() + 1.0);
    const auto three = torch::full({3}, 3.0);
    EXPECT_TRUE(torch::equal(allreduce(hora, x, ReduceOp::sum), three));
    EXPECT_TRUE(torch::equal(allreduce_async(hora, x, ReduceOp::sum).wait(), three));
    EXPECT_TRUE(torch::equal(allreduce(hora, x), three / 2));
    const double loss = allreduce(hora, hora.rank() + 0.1);
    EXPECT_DOUBLE_EQ(loss, 0.6);
    static_assert(std::is_same_v<decltype(allreduce(hora, std::int64_t{1})), std::int64_t>);
    static_assert(std::is_same_v<decltype(allreduce(hora, 1.5F, ReduceOp::max)), float>);
    EXPECT_EQ(allreduce(hora, (std::int64_t{1} << 53) + hora.rank(), ReduceOp::max),
              (std::int64_t{1} << 53) + 1);
    EXPECT_EQ(allreduce(hora, hora.rank() + 1, {.op = ReduceOp::sum}), 3);
    torch::nn::Linear net(2, 1);
    auto& p = net->weight;
    p.data().fill_(hora.rank() + 1);
    EXPECT_TRUE(allreduce_(hora, p.data(), ReduceOp::sum).is_alias_of(p));
    EXPECT_TRUE(torch::equal(p.detach(), torch::full({1, 2}, 3.0F)));
    allreduce_async_(hora, p.data().select(1, 0)).wait();
    broadcast_(hora, p.data(), 1);
    broadcast_async_(hora, p.data(), 0).wait();
    EXPECT_TRUE(torch::equal(p.detach(), torch::full({1, 2}, 3.0F)));
    EXPECT_TRUE(p.requires_grad());
  });
}

TEST(Collectives, TakeScalarsZeroRowsAndTensorsThatAreNotContiguous) {
  run_local_job(kRanks, [](Runtime& hora) {
    const ReduceOptions sum{.name = "x", .op = ReduceOp::sum};
    EXPECT_EQ(allreduce(hora, torch::tensor(hora.rank() + 1.0), sum).item<double>(), 6);
    EXPECT_EQ(broadcast(hora, torch::tensor(hora.rank()), 2, {.name = "x"}).item<int>(), 2);
    const auto none = torch::empty({0, 4});
    EXPECT_EQ(allreduce(hora, none, sum).sizes(), none.sizes());
    EXPECT_EQ(broadcast(hora, none, 0, {.name = "x"}).sizes(), none.sizes());
    EXPECT_EQ(allgather(hora, none, {.name = "x"}).sizes(), none.sizes());
    EXPECT_EQ(alltoall(hora, none, {}, {.name = "x"}).output.sizes(), none.sizes());
    EXPECT_EQ(reducescatter(hora, none, sum).sizes(), none.sizes());

    const auto turned = rows_of(hora.rank(), 3, 2).t();  // [2, 3], columns 100 * rank + 0, 1, 2
    const auto whole = rows_of(0, 3, 2).t() + rows_of(1, 3, 2).t() + rows_of(2, 3, 2).t();
    EXPECT_TRUE(torch::equal(allreduce(hora, turned, sum), whole));
    EXPECT_TRUE(torch::equal(broadcast(hora, turned, 1, {.name = "x"}), rows_of(1, 3, 2).t()));
    EXPECT_TRUE(torch::equal(allgather(hora, turned, {.name = "x"}).slice(0, 2, 4), rows_of(1, 3, 2).t()));
    EXPECT_TRUE(torch::equal(allreduce(hora, torch::ones({1}).expand({5}), sum), torch::full({5}, 3.0)));
  });
}

TEST(Collectives, WorkInPlaceAndLater) {
  run_local_job(kRanks, [](Runtime& hora) {
    auto x = torch::full({5}, static_cast<float>(hora.rank()));
    const auto handle = allreduce_async_(hora, x, {.name = "x"});
    EXPECT_TRUE(torch::equal(handle.wait(), torch::ones({5})));
    EXPECT_TRUE(torch::equal(x, torch::ones({5})));

    auto matrix = torch::full({2, 3}, hora.rank() + 1.0);
    auto turned = matrix.t();
    const auto later = broadcast_async_(hora, turned, 2, {.name = "x"});
    static_cast<void>(later.wait());
    EXPECT_TRUE(later.poll());
    EXPECT_TRUE(torch::equal(matrix, torch::full({2, 3}, 3.0)));
    matrix.fill_(7);
    static_cast<void>(later.wait());  // what the tensor has got since stays
    EXPECT_TRUE(torch::equal(matrix, torch::full({2, 3}, 7.0)));
    EXPECT_TRUE(torch::equal(broadcast_async(hora, x * hora.rank(), 1).wait(), x));

    auto expanded = torch::ones({1}).expand({5});
    EXPECT_EQ(thrown([&] { allreduce_(hora, expanded); }).code, Code::invalid_argument);
    EXPECT_EQ(thrown([&] { broadcast_(hora, expanded, 0); }).code, Code::invalid_argument);
    barrier(hora);
  });
}

TEST(Collectives, RefuseWhatTheyCannotSendAndSayWhatToDo) {
  run_local_job(1, [](Runtime& hora) {
    const auto refusal = [&](const torch::Tensor& tensor) {
      const Status status = thrown([&] { allreduce(hora, tensor, {.name = "w"}); });
      EXPECT_EQ(status.code, Code::invalid_argument);
      EXPECT_EQ(status.message.find("'allreduce.w'"), 0u);
      return status.message;
    };
    EXPECT_NE(refusal(torch::zeros({2}, torch::kComplexHalf)).find("convert"), std::string::npos);
    EXPECT_NE(refusal(torch::empty({2}, torch::kMeta)).find("no elements"), std::string::npos);
    EXPECT_NE(refusal({}).find("undefined"), std::string::npos);
    const auto sparse = torch::eye(2).to_sparse();
    EXPECT_NE(thrown([&] { allgather(hora, sparse); }).message.find(".to_dense()"), std::string::npos);
    const auto scalar = torch::tensor(1.0);
    for (const auto& call : std::vector<std::function<void()>>{
             [&] { allgather(hora, scalar); }, [&] { alltoall(hora, scalar); },
             [&] { reducescatter(hora, scalar); }, [&] { grouped_allgather(hora, {scalar}); }}) {
      EXPECT_NE(thrown(call).message.find(".unsqueeze(0)"), std::string::npos);
    }
    for (const auto& call : std::vector<std::function<void()>>{
             [&] { grouped_allreduce(hora, {}); }, [&] { grouped_allgather(hora, {}); },
             [&] { grouped_reducescatter(hora, {}); }, [&] { grouped_allreduce_(hora, {}); }}) {
      EXPECT_EQ(thrown(call).code, Code::invalid_argument);
    }
    EXPECT_TRUE(torch::equal(allreduce(hora, torch::ones({2})), torch::ones({2})));
  });
}

TEST(Collectives, WithoutANameAreStillInStepWhenOneRankWasRefused) {
  run_local_job(2, [](Runtime& hora) {
    const auto x = rows_of(hora.rank(), 4);
    if (hora.rank() == 1) {
      for (const auto& call : std::vector<std::function<void()>>{
               [&] { alltoall(hora, x, {9, 9}); }, [&] { broadcast(hora, x, 9); },
               [&] { reducescatter(hora, x, {.op = ReduceOp::adasum}); },
               [&] { allreduce(hora, x.to(torch::kBool)); }, [&] { allreduce(hora, x, {.prescale = NAN}); },
               [&] { grouped_allreduce(hora, {x, x.to(torch::kBool)}); },
               [&] { grouped_reducescatter(hora, {x}, {.op = ReduceOp::adasum}); },
               [&] { allgather(hora, torch::tensor(1)); }}) {
        EXPECT_EQ(thrown(call).code, Code::invalid_argument);
      }
    }
    EXPECT_TRUE(torch::equal(allreduce(hora, x), (rows_of(0, 4) + rows_of(1, 4)) / 2));
    barrier(hora);
  });
}

TEST(Collectives, AreThoseOfAProcessSet) {
  run_local_job(kRanks, [](Runtime& hora) {
    const int set = hora.add_process_set({0, 2});
    const auto x = rows_of(hora.rank(), 4);
    const auto sums = rows_of(0, 4) + rows_of(2, 4);
    if (hora.rank() == 1) {
      for (const auto& call : std::vector<std::function<void()>>{
               [&] { allreduce(hora, x, {.process_set = set}); },
               [&] { broadcast(hora, x, 0, {.process_set = set}); },
               [&] { allgather(hora, x, {.process_set = set}); },
               [&] { alltoall(hora, x, {}, {.process_set = set}); },
               [&] { reducescatter(hora, x, {.process_set = set}); },
               [&] { grouped_allreduce(hora, {x}, {.process_set = set}); }, [&] { barrier(hora, set); }}) {
        const Status status = thrown(call);
        EXPECT_EQ(status.code, Code::invalid_argument);
        EXPECT_NE(status.message.find("rank 1 is not a member"), std::string::npos) << status.message;
      }
    } else {
      EXPECT_TRUE(torch::equal(allreduce(hora, x, {.process_set = set}), sums / 2));
      EXPECT_TRUE(torch::equal(broadcast(hora, x, 2, {.process_set = set}), rows_of(2, 4)));
      EXPECT_TRUE(
          torch::equal(allgather(hora, x, {.process_set = set}), torch::cat({rows_of(0, 4), rows_of(2, 4)})));
      const auto received = alltoall(hora, x, {}, {.process_set = set});
      const std::int64_t part = hora.rank() / 2;
      EXPECT_TRUE(torch::equal(received.output,
                               torch::cat({rows_of(0, 4).chunk(2)[part], rows_of(2, 4).chunk(2)[part]})));
      EXPECT_EQ(received.received_splits, (std::vector<std::int64_t>{2, 2}));
      EXPECT_TRUE(torch::equal(reducescatter(hora, x, {.op = ReduceOp::sum, .process_set = set}),
                               sums.chunk(2)[part]));
      barrier(hora, set);
      NamedTensors named;
      auto own = x.clone();
      named.insert("own", own);
      broadcast_parameters(hora, named, 2, set);
      EXPECT_TRUE(torch::equal(own, rows_of(2, 4)));
    }
    EXPECT_EQ(thrown([&] { allreduce(hora, x, {.process_set = 7}); }).code, Code::invalid_argument);
    EXPECT_EQ(thrown([&] { reducescatter(hora, x, {.process_set = 7}); }).code, Code::invalid_argument);
    EXPECT_TRUE(torch::equal(broadcast(hora, x, 1), rows_of(1, 4)));  // all ranks are still in step
  });
}

TEST(Alltoall, SendsRowsToWhomTheyAreFor) {
  run_local_job(kRanks, [](Runtime& hora) {
    const auto splits_of = [](int rank) {
      return std::vector<std::int64_t>{rank, (rank + 1) % 3, 2};  // rank 0 sends itself nothing
    };
    const auto splits = splits_of(hora.rank());
    const std::int64_t sent = std::accumulate(splits.begin(), splits.end(), std::int64_t{0});
    const auto x = rows_of(hora.rank(), sent + hora.rank());  // some rows are for nobody
    const auto received = alltoall(hora, x, splits, {.name = "x"});
    std::vector<torch::Tensor> parts;
    std::vector<std::int64_t> counts;
    for (int from = 0; from < kRanks; ++from) {
      const auto theirs = splits_of(from);
      const auto begin = std::accumulate(theirs.begin(), theirs.begin() + hora.rank(), std::int64_t{0});
      counts.push_back(theirs[static_cast<std::size_t>(hora.rank())]);
      parts.push_back(rows_of(from, 10).narrow(0, begin, counts.back()));
    }
    EXPECT_TRUE(torch::equal(received.output, torch::cat(parts)));
    EXPECT_EQ(received.received_splits, counts);
  });
}

TEST(Alltoall, RefusesSplitsThatDoNotFit) {
  run_local_job(2, [](Runtime& hora) {
    const auto x = rows_of(hora.rank(), 3);
    for (const auto& splits : std::vector<std::vector<std::int64_t>>{{}, {3}, {2, 2}, {-1, 2}}) {
      EXPECT_EQ(thrown([&] { alltoall(hora, x, splits, {.name = "x"}); }).code, Code::invalid_argument);
    }
    EXPECT_EQ(alltoall(hora, x, {1, 2}, {.name = "x"}).output.size(0), 2 * (hora.rank() + 1));
  });
}

TEST(Reducescatter, GivesEachRankItsShareOfTheRows) {
  run_local_job(kRanks, [](Runtime& hora) {
    for (const std::int64_t rows : {7, 6, 1, 0}) {
      const auto sum = rows_of(0, rows) + rows_of(1, rows) + rows_of(2, rows);
      const auto shares = scattered_rows(rows, kRanks);
      const auto own = sum.split_with_sizes(shares)[static_cast<std::size_t>(hora.rank())];
      const auto x = rows_of(hora.rank(), rows);
      EXPECT_TRUE(torch::equal(reducescatter(hora, x, {.op = ReduceOp::sum}), own));
      EXPECT_TRUE(torch::equal(reducescatter(hora, x), own / 3));
      EXPECT_TRUE(torch::equal(
          reducescatter(hora, x, {.op = ReduceOp::sum, .prescale = 2, .postscale = 0.25}), own / 2));
      EXPECT_TRUE(torch::equal(reducescatter_async(hora, x, {.op = ReduceOp::sum}).wait(), own));
      EXPECT_FALSE(reducescatter(hora, x, {.op = ReduceOp::max}).requires_grad());
    }
    EXPECT_EQ(
        thrown([&] { reducescatter(hora, torch::ones({3}), {.name = "x", .op = ReduceOp::adasum}); }).code,
        Code::invalid_argument);
  });
}

TEST(Gather, GivesTheRootAllRows) {
  run_local_job(kRanks, [](Runtime& hora) {
    const auto whole = gather(hora, rows_of(hora.rank(), hora.rank()), 2, {.name = "g"});
    EXPECT_EQ(whole.defined(), hora.rank() == 2);
    if (whole.defined()) {
      EXPECT_TRUE(torch::equal(whole, torch::cat({rows_of(1, 1), rows_of(2, 2)})));
    }
  });
}

TEST(Scatter, GivesEachRankItsRowsOfTheRoots) {
  run_local_job(kRanks, [](Runtime& hora) {
    const auto whole = rows_of(1, 7);
    const auto place = static_cast<std::size_t>(hora.rank());
    const auto mine = hora.rank() == 1 ? whole : rows_of(hora.rank(), 0);
    EXPECT_TRUE(torch::equal(scatter(hora, mine, 1), whole.split_with_sizes({3, 2, 2})[place]));
    EXPECT_TRUE(torch::equal(scatter(hora, mine, 1, {0, 1, 6}), whole.split_with_sizes({0, 1, 6})[place]));
  });
}

TEST(Reduce, GivesTheRootWhatAnAllreduceGivesAll) {
  run_local_job(kRanks, [](Runtime& hora) {
    const auto x = rows_of(hora.rank(), 4);
    const auto mean = allreduce(hora, x);
    const auto reduced = reduce(hora, x, 0);
    EXPECT_EQ(reduced.defined(), hora.rank() == 0);
    if (reduced.defined()) {
      EXPECT_TRUE(torch::equal(reduced, mean));
    }
  });
}

TEST(Scan, ReducesTheRanksUpToThisOne) {
  run_local_job(kRanks, [](Runtime& hora) {
    auto expected = torch::zeros_like(rows_of(0, 2));
    for (int rank = 0; rank <= hora.rank(); ++rank) expected += rows_of(rank, 2);
    EXPECT_TRUE(torch::equal(scan(hora, rows_of(hora.rank(), 2)), expected));
  });
}

TEST(Groups, TakeTensorsOfAnyKind) {
  run_local_job(kRanks, [](Runtime& hora) {
    const double r = hora.rank();
    const std::vector<torch::Tensor> all = {torch::full({2, 3}, r), torch::full({3, 2}, r + 1, torch::kInt64),
                                            torch::empty({0, 2}), rows_of(hora.rank(), 3).t()};
    const auto sums = grouped_allreduce(hora, all, {.name = "g", .op = ReduceOp::sum});
    EXPECT_TRUE(torch::equal(sums[0], torch::full({2, 3}, 3.0)));
    EXPECT_TRUE(torch::equal(sums[1], torch::full({3, 2}, 6, torch::kInt64)));
    EXPECT_EQ(sums[2].sizes(), all[2].sizes());
    EXPECT_TRUE(torch::equal(sums[3], (rows_of(0, 3) + rows_of(1, 3) + rows_of(2, 3)).t()));

    const auto gathered = grouped_allgather(hora, all, {.name = "g"});
    EXPECT_EQ(gathered[0].select(1, 0).sum().item<double>(), 2 * (0 + 1 + 2));
    EXPECT_EQ(gathered[1].size(0), 9);
    EXPECT_EQ(gathered[2].sizes(), all[2].sizes());
    EXPECT_TRUE(torch::equal(gathered[3].slice(0, 4, 6), rows_of(2, 3).t()));

    const auto scattered = grouped_reducescatter(hora, all, {.op = ReduceOp::sum});
    EXPECT_EQ(scattered[0].size(0), hora.rank() < 2 ? 1 : 0);
    EXPECT_TRUE(torch::equal(scattered[1], torch::full({1, 2}, 6, torch::kInt64)));
    EXPECT_TRUE(torch::equal(scattered[0], sums[0].narrow(0, 0, scattered[0].size(0))));

    std::vector<torch::Tensor> own;
    for (const auto& tensor : all) own.push_back(tensor.clone());
    own[3] = rows_of(hora.rank(), 3).t();
    const auto handle = grouped_allreduce_async_(hora, own, {.name = "g", .op = ReduceOp::sum});
    static_cast<void>(handle.wait());
    for (std::size_t i = 0; i < own.size(); ++i) EXPECT_TRUE(torch::equal(own[i], sums[i]));
  });
}

TEST(Groups, FailAsAWholeAndTheJobGoesOn) {
  run_local_job(2, [](Runtime& hora) {
    auto good = torch::ones({2});
    auto bad = torch::ones({2 + hora.rank()});
    const Status status = thrown([&] { grouped_allreduce_(hora, {good, bad}, {.name = "g"}); });
    EXPECT_EQ(status.code, Code::mismatch);
    EXPECT_TRUE(torch::equal(good, torch::ones({2})));
    const Status sparse = thrown([&] { grouped_allreduce(hora, {good, torch::eye(2).to_sparse()}); });
    EXPECT_EQ(sparse.code, Code::invalid_argument);
    EXPECT_NE(sparse.message.find("_2of2"), std::string::npos) << sparse.message;
    EXPECT_TRUE(torch::equal(grouped_allreduce(hora, {good}, {.op = ReduceOp::sum})[0], good * 2));
  });
}

TEST(Join, RanksThatHaveJoinedCountAsZerosAndBringNoRows) {
  run_local_job(kRanks, [](Runtime& hora) {
    for (const bool initial : {true, false}) {
      for (int batch = 0; batch <= hora.rank(); ++batch) {  // rank 0 has 1 batch, rank 2 has 3
        const int left = kRanks - batch;
        const auto one = torch::ones({2});
        const std::string name = "batch";
        EXPECT_TRUE(torch::allclose(allreduce(hora, one, {.name = name}),
                                    one * (initial ? static_cast<float>(left) / 3.0F : 1.0F)));
        EXPECT_EQ(allgather(hora, one, {.name = name}).size(0), 2 * left);
        const auto sparse = torch::eye(2).to_sparse();
        EXPECT_TRUE(torch::allclose(allreduce(hora, sparse, {.name = name}).to_dense(),
                                    torch::eye(2) * (initial ? static_cast<float>(left) / 3.0F : 1.0F)));
      }
      EXPECT_EQ(join(hora, initial), kRanks - 1);
    }
  });
}

TEST(SparseAllreduce, IsThatOfTheDenseTensors) {
  run_local_job(kRanks, [](Runtime& hora) {
    const auto dense_of = [](int rank) {
      auto dense = torch::zeros({5, 2});
      for (int row = 0; row < rank; ++row) dense[row + 1].fill_(row + rank);  // rank 0 has no values
      return dense;
    };
    const auto sum = dense_of(0) + dense_of(1) + dense_of(2);
    const auto own = dense_of(hora.rank()).to_sparse(1);
    EXPECT_TRUE(torch::equal(allreduce(hora, own, {.op = ReduceOp::sum}).to_dense(), sum));
    EXPECT_TRUE(torch::allclose(allreduce(hora, own, {.name = "x"}).to_dense(), sum / 3));
    EXPECT_TRUE(allreduce(hora, own).is_coalesced());
    EXPECT_TRUE(torch::equal(
        allreduce(hora, own,
                  {.op = ReduceOp::sum, .prescale = 4, .postscale = 0.5, .compression = Compression::bf16})
            .to_dense(),
        sum * 2));
    const auto whole_numbers = dense_of(hora.rank()).to(torch::kInt32).to_sparse();
    EXPECT_TRUE(torch::equal(allreduce(hora, whole_numbers).to_dense(), (sum / 3).to(torch::kInt32)));
    auto in_place = own.clone();
    allreduce_(hora, in_place, {.op = ReduceOp::sum});
    EXPECT_TRUE(torch::equal(in_place.to_dense(), sum));
  });
}

TEST(SparseAllreduce, RefusesOtherOpsAndShapesThatDiffer) {
  run_local_job(2, [](Runtime& hora) {
    const auto sparse = torch::eye(2 + hora.rank()).to_sparse();
    EXPECT_EQ(thrown([&] { allreduce(hora, sparse, {.name = "x", .op = ReduceOp::adasum}); }).code,
              Code::invalid_argument);
    EXPECT_EQ(thrown([&] { allreduce(hora, torch::eye(2).to_sparse_csr(), {.name = "x"}); }).code,
              Code::invalid_argument);
    const auto other = torch::ones({2, 2, 2}).to_sparse(hora.rank() + 1);
    EXPECT_EQ(thrown([&] { allreduce(hora, other, {.name = "x"}); }).code, Code::mismatch);
    const Status status = thrown([&] { allreduce(hora, sparse, {.name = "x"}); });
    EXPECT_EQ(status.code, Code::mismatch);
    EXPECT_EQ(
        status.message,
        "'sparse_allreduce.x': the shape of the sparse tensor differs between ranks: from [2, 2] to [3, 3]");
    barrier(hora);
  });
}

TEST(Adasum, CombinesNeighboursThenTheirResults) {
  run_local_job(kRanks, [](Runtime& hora) {
    const auto vector_of = [](int rank) {
      return torch::sin(torch::arange(10, torch::kFloat64) * (rank + 1.5));
    };
    const auto expected = adasum(adasum(vector_of(0), vector_of(1)), vector_of(2));
    const auto own = vector_of(hora.rank());
    EXPECT_TRUE(torch::allclose(allreduce(hora, own, {.op = ReduceOp::adasum}), expected, 1e-12, 1e-14));
    const auto group = grouped_allreduce(hora, {own, own * 2}, {.op = ReduceOp::adasum});
    EXPECT_TRUE(torch::allclose(group[1], expected * 2, 1e-12, 1e-14));
    EXPECT_EQ(
        thrown([&] { allreduce(hora, torch::ones({2}, torch::kInt32), {.op = ReduceOp::adasum}); }).code,
        Code::invalid_argument);
  });
}

}  // namespace
}  // namespace hora
