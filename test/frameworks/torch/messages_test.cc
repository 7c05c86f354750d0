// SPDX-License-Identifier: Apache-2.0
#include <hora/torch.h>

#include "test/support/local_job.h"
#include "test/support/thrown.h"

#include <gtest/gtest.h>

namespace hora {
namespace {

TEST(TorchMessages, BringTensorsOfEveryDTypeAndShape) {
  run_local_job(2, [](Runtime& hora) {
    for (const auto dtype :
         {torch::kUInt8, torch::kInt8, torch::kInt16, torch::kInt32, torch::kInt64, torch::kFloat16,
          torch::kBFloat16, torch::kFloat32, torch::kFloat64, torch::kBool}) {
      for (const auto& shape : std::vector<std::vector<std::int64_t>>{{}, {0, 3}, {2, 3}, {300, 400}}) {
        const auto x = torch::ones(shape, dtype);
        if (hora.rank() == 0) {
          send(hora, x, 1, 3);
          continue;
        }
        const Received received = recv(hora, 0, 3);
        EXPECT_EQ(received.tensor.scalar_type(), dtype);
        EXPECT_TRUE(torch::equal(received.tensor, x));
        EXPECT_EQ(received.source, 0);
        EXPECT_EQ(received.tag, 3);
      }
    }
  });
}

TEST(TorchMessages, LeaveTensorsThatAreNotContiguousAsTheyAre) {
  run_local_job(3, [](Runtime& hora) {
    const auto x = torch::arange(60'000).reshape({200, 300}).t() + hora.rank();
    auto y = torch::zeros({200, 300}, torch::kInt64).t();
    const int next = (hora.rank() + 1) % 3;
    const int before = (hora.rank() + 2) % 3;
    const auto receiving = irecv_(hora, y, before, 0);
    const auto sending = isend(hora, x, next);
    const Received received = receiving.wait();
    EXPECT_TRUE(received.tensor.is_alias_of(y));
    EXPECT_TRUE(torch::equal(y, x - hora.rank() + before));
    EXPECT_EQ(received.source, before);
    sending.wait();
    auto z = torch::zeros({2});
    send(hora, torch::ones({2}), hora.rank(), 9);
    EXPECT_EQ(recv_(hora, z).tag, 9);
    EXPECT_TRUE(torch::equal(z, torch::ones({2})));
  });
}

TEST(TorchMessages, KeepTheTensorsOfWhatNobodyWaitsFor) {
  run_local_job(2, [](Runtime& hora) {
    if (hora.rank() == 0) {
      for (int i = 0; i < 20; ++i) isend(hora, torch::full({100'000}, i), 1, i);
      barrier(hora);
      return;
    }
    for (int i = 19; i >= 0; --i)
      EXPECT_TRUE(torch::equal(recv(hora, 0, i).tensor, torch::full({100'000}, i)));
    auto handle = irecv(hora);
    EXPECT_FALSE(handle.poll());
    barrier(hora);
  });
}

TEST(TorchMessages, SayWhatIsWrong) {
  run_local_job(1, [](Runtime& hora) {
    const auto x = torch::ones({2, 3});
    EXPECT_EQ(thrown([&] { send(hora, x, 1); }).code, Code::invalid_argument);
    EXPECT_EQ(thrown([&] { send(hora, torch::Tensor(), 0); }).message, "'send': the tensor is undefined");
    EXPECT_NE(thrown([&] { send(hora, x.to_sparse(), 0); }).message.find(".to_dense()"), std::string::npos);
    auto expanded = torch::ones({1}).expand({5});
    EXPECT_NE(thrown([&] { recv_(hora, expanded); }).message.find(".contiguous()"), std::string::npos);
    send(hora, x, 0, 4);
    auto y = torch::zeros({3, 2});
    EXPECT_EQ(thrown([&] { recv_(hora, y, 0, 4); }),
              (Status{Code::mismatch,
                      "a message from rank 0 with tag 4 is float32[2,3], but the receive that "
                      "takes it wants float32[3,2]"}));
  });
}

}  // namespace
}  // namespace hora
