// SPDX-License-Identifier: Apache-2.0
#include <hora/torch.h>

#include "test/support/local_job.h"

#include <gtest/gtest.h>

namespace hora {
namespace {

TEST(Collectives, TakeEveryDType) {
  run_local_job(2, [](Runtime& hora) {
    for (const auto dtype : {torch::kUInt8, torch::kInt8, torch::kInt16, torch::kInt32, torch::kInt64,
                             torch::kFloat16, torch::kBFloat16, torch::kFloat32, torch::kFloat64}) {
      const auto x = torch::full({2, 3}, hora.rank() + 1, dtype);
      const std::string name = torch::toString(dtype);
      EXPECT_TRUE(torch::equal(allreduce(hora, x, {.name = name, .op = ReduceOp::sum}),
                               torch::full({2, 3}, 3, dtype)));
      EXPECT_TRUE(torch::equal(broadcast(hora, x, 1, name), torch::full({2, 3}, 2, dtype)));
      const auto gathered = allgather(hora, x.narrow(0, 0, hora.rank() + 1), name);
      EXPECT_EQ(gathered.sizes(), (std::vector<std::int64_t>{3, 3}));
      EXPECT_EQ(gathered.sum().item<double>(), 3 + 12);
    }
    barrier(hora);
  });
}

TEST(Collectives, WorkInPlaceAndLater) {
  run_local_job(3, [](Runtime& hora) {
    auto x = torch::full({5}, static_cast<float>(hora.rank()));
    const auto handle = allreduce_async_(hora, x, {.name = "x"});
    EXPECT_TRUE(torch::equal(handle.wait(), torch::ones({5})));
    EXPECT_TRUE(torch::equal(x, torch::ones({5})));
  });
}

TEST(Collectives, RefuseWhatTheyCannotSendAndSayWhatToDo) {
  run_local_job(1, [](Runtime& hora) {
    const auto refusal = [&](const torch::Tensor& tensor) -> std::string {
      try {
        allreduce(hora, tensor, {.name = "w"});
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), Code::invalid_argument);
        return error.what();
      }
      return "";
    };
    EXPECT_NE(refusal(torch::zeros({2, 3}).t()).find(".contiguous()"), std::string::npos);
    EXPECT_NE(refusal(torch::zeros({2}, torch::kComplexFloat)).find("convert"), std::string::npos);
    EXPECT_NE(refusal(torch::eye(2).to_sparse()).find(".to_dense()"), std::string::npos);
    EXPECT_NE(refusal(torch::empty({2}, torch::kMeta)).find(".cpu()"), std::string::npos);
    EXPECT_NE(refusal({}).find("undefined"), std::string::npos);
    EXPECT_TRUE(torch::equal(allreduce(hora, torch::ones({2})), torch::ones({2})));
  });
}

}  // namespace
}  // namespace hora
