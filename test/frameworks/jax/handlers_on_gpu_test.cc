// SPDX-License-Identifier: Apache-2.0
// The fake driver and the fake NCCL take the place of NVIDIA's here.
#include "frameworks/jax/completions.h"
#include "test/frameworks/jax/xla_calls.h"
#include "test/support/fake_gpu/framework_stream.h"
#include "test/support/fake_gpu/waiting.h"

#include <hora/c.h>

#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <optional>
#include <string>
#include <thread>

namespace hora::jax {
namespace {

/// A job of one rank, on a machine with two GPUs. Parameter: HORA_GPU_OPERATIONS.
class HandlersOnGpu : public testing::TestWithParam<const char*> {
 protected:
  static constexpr int kGpu = 1;
  static constexpr std::size_t kCount = 3;
  static constexpr std::size_t kBytes = kCount * sizeof(float);
  using Floats = std::array<float, kCount>;

  void SetUp() override {
    ::setenv("HORA_GPU_OPERATIONS", GetParam(), 1);
    ::setenv("HORA_NCCL_LIBRARY", FAKE_LIBNCCL, 1);
    ASSERT_EQ(hora_init(), HORA_OK) << hora_last_error();
    framework_.emplace(driver_, kGpu);
    input_ = framework_->allocate(kBytes);
    output_ = framework_->allocate(kBytes);
  }
  void TearDown() override {
    EXPECT_EQ(hora_shutdown(nullptr), HORA_OK) << hora_last_error();
    while (Completions::of_process().waiting() > 0) std::this_thread::yield();  // handles are given back
    framework_.reset();
    for (const char* setting : {"HORA_GPU_OPERATIONS", "HORA_NCCL_LIBRARY"}) ::unsetenv(setting);
  }

  XlaExecution execute(const XlaCustomCall& call, int gpu = kGpu) {
    return call.execute_on_gpu({{XLA_FFI_DataType_F32, input_, {kCount}}},
                               {{XLA_FFI_DataType_F32, output_, {kCount}}}, framework_->stream(), gpu);
  }
  void make_input(const Floats& values) { framework_->copy(input_, values.data(), kBytes); }
  void see_output(Floats& to) { framework_->copy(to.data(), output_, kBytes); }

  FakeDriver driver_{{FakeGpu{}, FakeGpu{}}};
  std::optional<FrameworkStream> framework_;
  void* input_ = nullptr;
  void* output_ = nullptr;
};

TEST_P(HandlersOnGpu, WaitForTheStreamAndTheStreamForThem) {
  auto attributes = sum_of(new_program(), "x");
  attributes["prescale"] = 2.0;
  const XlaCustomCall call(attributes);
  for (float turn = 1; turn <= 3; ++turn) {
    const Floats made{turn, 10 * turn, 100 * turn};
    Floats seen{};
    HeldStream held(framework_->stream());
    make_input(made);  // when the stream is open
    std::thread opener([&] { held.open(); });
    const auto execution = execute(call);
    see_output(seen);
    EXPECT_TRUE(execution.has_ended()) << "the stream alone orders what follows";
    EXPECT_TRUE(execution.wait().ok()) << execution.wait().message;
    opener.join();
    framework_->finish();
    EXPECT_EQ(seen, (Floats{2 * turn, 20 * turn, 200 * turn}));
  }
}

TEST_P(HandlersOnGpu, TellHoraTheNumberOfTheGpu) {
  const XlaCustomCall call(sum_of(new_program(), "x"));
  const XlaStatus status = execute(call, 2).wait();
  EXPECT_EQ(status.code, XLA_FFI_Error_Code_INVALID_ARGUMENT);
  EXPECT_NE(status.message.find("2"), std::string::npos) << status.message;
  EXPECT_TRUE(execute(call).wait().ok());
  EXPECT_NE(execute(call, 0).wait().message.find("this rank uses cuda:1"), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Operations, HandlersOnGpu, testing::Values("nccl", "staged"),
                         [](const auto& of) { return std::string(of.param); });

/// NCCL's work is put on the stream, and nobody waits for it.
class HandlersWithNccl : public HandlersOnGpu {};

TEST_P(HandlersWithNccl, ReturnWhenTheWorkIsOnTheStream) {
  const XlaCustomCall call(sum_of(new_program(), "x"));
  const Floats made{1, 2, 3};
  Floats seen{};
  {
    HeldStream held(framework_->stream());
    make_input(made);
    const auto execution = execute(call);
    EXPECT_TRUE(execution.wait().ok()) << execution.wait().message;
    see_output(seen);
    EXPECT_EQ(Completions::of_process().waiting(), 1U) << "the GPU has not done it";
    EXPECT_EQ(seen, Floats{});
  }
  framework_->finish();
  EXPECT_EQ(seen, made);
}

INSTANTIATE_TEST_SUITE_P(Operations, HandlersWithNccl, testing::Values("nccl"),
                         [](const auto& of) { return std::string(of.param); });

}  // namespace
}  // namespace hora::jax
