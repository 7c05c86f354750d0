// SPDX-License-Identifier: Apache-2.0
// The functions that XLA calls, called as XLA calls them.
#include "frameworks/jax/completions.h"
#include "test/frameworks/jax/xla_calls.h"
#include "test/support/threads.h"

#include <hora/c.h>
#include <hora/hora.h>

#include <gtest/gtest.h>
#include <xla/ffi/api/ffi.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <future>
#include <memory>
#include <optional>

extern "C" XLA_FFI_Error* hora_jax_instantiate(XLA_FFI_CallFrame* frame);
extern "C" XLA_FFI_Error* hora_jax_execute_on_host(XLA_FFI_CallFrame* frame);

namespace hora::jax {
namespace {

using namespace std::chrono_literals;
using Floats = std::vector<float>;

template <XLA_FFI_DataType dtype = XLA_FFI_DataType_F32, typename T>
XlaTensor tensor(std::vector<T>& data) {
  return {dtype, data.data(), {static_cast<std::int64_t>(data.size())}};
}

/// Sums a tensor in place.
XlaExecution sum(const XlaCustomCall& call, Floats& data) {
  return call.execute_on_host({tensor(data)}, {tensor(data)});
}

/// A job of this process alone.
class HandlersOfOneRank : public testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(hora_init(), HORA_OK) << hora_last_error(); }
  void TearDown() override { EXPECT_EQ(hora_shutdown(nullptr), HORA_OK) << hora_last_error(); }
};

/// A job of this process, rank 0, and of another rank, which is a thread.
class HandlersOfTwoRanks : public testing::Test {
 protected:
  void SetUp() override {
    std::array<char, 1024> coordinator{};
    Secret secret{};
    ASSERT_EQ(hora_listen(coordinator.data(), coordinator.size(), secret.data()), HORA_OK);
    auto joined = std::async(std::launch::async, [&] {
      return std::make_unique<Runtime>(Config::with_place(1, 2, coordinator.data(), secret));
    });
    ASSERT_EQ(hora_init_at(0, 2, coordinator.data(), secret.data()), HORA_OK) << hora_last_error();
    other_ = joined.get();
  }
  void TearDown() override {
    const auto left = std::async(std::launch::async, [this] { other_.reset(); });
    EXPECT_EQ(hora_shutdown(nullptr), HORA_OK) << hora_last_error();
  }

  /// The other rank brings ones to a sum. Waits for the end, and tells how it was there.
  Status join_in(const std::string& name, std::int64_t count) {
    Floats ones(static_cast<std::size_t>(count), 1);
    Entry entry;
    entry.name = name;
    entry.shape = {count};
    entry.input = entry.output = ones.data();
    entry.op = ReduceOp::sum;
    try {
      const Handle handle = other_->submit(std::move(entry));
      if (!handle.wait_for(20s)) other_->shutdown("rank 0 has not come");
      return handle.wait().status;
    } catch (const Error& error) {
      return error.status();
    }
  }

  std::unique_ptr<Runtime> other_;
};

TEST(Handlers, TellXlaTheirInterfaceAndTheTypeOfAnOperation) {
  const auto instantiate = traits_of(&hora_jax_instantiate);
  EXPECT_EQ(instantiate.major, XLA_FFI_API_MAJOR);
  EXPECT_EQ(instantiate.minor, XLA_FFI_API_MINOR);
  EXPECT_GT(instantiate.state_type, 0);
  EXPECT_EQ(traits_of(&hora_jax_execute_on_host).state_type, 0) << "it makes none";
}

TEST_F(HandlersOfOneRank, ReduceTensorsOfSeveralDtypesAndShapesTogether) {
  auto attributes = sum_of(new_program(), "x\ny\nz");
  attributes["prescale"] = 2.0;
  const XlaCustomCall call(attributes);
  ASSERT_TRUE(call.compiled().ok()) << call.compiled().message;
  Floats x{1, 2, 3};
  std::vector<double> y{4, 5, 6, 7, 8, 9};
  Floats scalar{10};
  Floats summed_x(3);
  std::vector<double> summed_y(6);
  Floats summed_scalar(1);
  for (int turn = 0; turn < 3; ++turn) {
    const auto execution = call.execute_on_host(
        {tensor(x), {XLA_FFI_DataType_F64, y.data(), {3, 2}}, {XLA_FFI_DataType_F32, scalar.data(), {}}},
        {tensor(summed_x),
         {XLA_FFI_DataType_F64, summed_y.data(), {3, 2}},
         {XLA_FFI_DataType_F32, summed_scalar.data(), {}}});
    ASSERT_TRUE(execution.wait().ok()) << execution.wait().message;
    EXPECT_EQ(summed_x, (Floats{2, 4, 6}));
    EXPECT_EQ(summed_y, (std::vector<double>{8, 10, 12, 14, 16, 18}));
    EXPECT_EQ(summed_scalar, Floats{20});
    EXPECT_EQ(x, (Floats{1, 2, 3})) << "the input stays";
    x = {1, 2, 3};
  }
}

TEST_F(HandlersOfOneRank, GiveTheRowsThatTheProgramExpects) {
  auto attributes = sum_of(new_program(), "g");
  attributes["operation"] = HORA_ALLGATHER;
  const XlaCustomCall gather(attributes);
  attributes["operation"] = HORA_ALLTOALL;
  attributes["names"] = "t";
  attributes["splits"] = std::vector<std::int64_t>{2};
  const XlaCustomCall exchange(attributes);
  Floats x{1, 2, 3};
  Floats gathered(3);
  Floats sent(2);
  EXPECT_TRUE(gather.execute_on_host({tensor(x)}, {tensor(gathered)}).wait().ok());
  EXPECT_EQ(gathered, x);
  EXPECT_TRUE(exchange.execute_on_host({tensor(x)}, {tensor(sent)}).wait().ok());
  EXPECT_EQ(sent, (Floats{1, 2}));
}

TEST_F(HandlersOfOneRank, AcceptEveryDtypeOfHora) {
  auto attributes = sum_of(new_program(), "x");
  attributes["operation"] = HORA_BROADCAST;
  const XlaCustomCall call(attributes);
  for (const auto dtype : {XLA_FFI_DataType_PRED,       XLA_FFI_DataType_S8,         XLA_FFI_DataType_S16,
                           XLA_FFI_DataType_S32,        XLA_FFI_DataType_S64,        XLA_FFI_DataType_U8,
                           XLA_FFI_DataType_U16,        XLA_FFI_DataType_U32,        XLA_FFI_DataType_U64,
                           XLA_FFI_DataType_F16,        XLA_FFI_DataType_BF16,       XLA_FFI_DataType_F32,
                           XLA_FFI_DataType_F64,        XLA_FFI_DataType_C64,        XLA_FFI_DataType_C128,
                           XLA_FFI_DataType_F8E4M3FN,   XLA_FFI_DataType_F8E4M3FNUZ, XLA_FFI_DataType_F8E5M2,
                           XLA_FFI_DataType_F8E5M2FNUZ, XLA_FFI_DataType_F8E8M0FNU}) {
    std::vector<std::byte> input(32, std::byte{1});
    std::vector<std::byte> output(32);
    const XlaStatus status =
        call.execute_on_host({{dtype, input.data(), {2}}}, {{dtype, output.data(), {2}}}).wait();
    EXPECT_TRUE(status.ok()) << dtype << ": " << status.message;
    const auto moved = static_cast<std::size_t>(std::count(output.begin(), output.end(), std::byte{1}));
    EXPECT_EQ(moved, 2 * ::xla::ffi::ByteWidth(static_cast<::xla::ffi::DataType>(dtype))) << dtype;
  }
}

TEST_F(HandlersOfOneRank, RefuseDtypesThatHoraDoesNotHave) {
  const XlaCustomCall call(sum_of(new_program(), "x"));
  std::vector<std::byte> memory(32);
  for (const auto dtype : {XLA_FFI_DataType_S4, XLA_FFI_DataType_F4E2M1FN, XLA_FFI_DataType_TOKEN}) {
    const XlaStatus status =
        call.execute_on_host({{dtype, memory.data(), {2}}}, {{dtype, memory.data(), {2}}}).wait();
    EXPECT_EQ(status.code, XLA_FFI_Error_Code_INVALID_ARGUMENT);
    EXPECT_EQ(status.message, "'x': Hora has no such dtype");
  }
}

TEST_F(HandlersOfOneRank, RefuseAnotherNumberOfTensorsThanNames) {
  const XlaCustomCall call(sum_of(new_program(), "x\ny"));
  Floats x{1};
  const XlaStatus status = call.execute_on_host({tensor(x)}, {tensor(x)}).wait();
  EXPECT_EQ(status.code, XLA_FFI_Error_Code_INVALID_ARGUMENT);
  EXPECT_EQ(status.message, "hora: 2 names for 1 inputs and 1 outputs");
  EXPECT_EQ(call.execute_on_host({tensor(x), tensor(x)}, {tensor(x)}).wait().message,
            "hora: 2 names for 2 inputs and 1 outputs");
}

TEST_F(HandlersOfOneRank, PassOnWhatHoraRefuses) {
  auto attributes = sum_of(new_program(), "b");
  attributes["operation"] = HORA_BROADCAST;
  attributes["root"] = 7;
  Floats x{1};
  const XlaStatus status = XlaCustomCall(attributes).execute_on_host({tensor(x)}, {tensor(x)}).wait();
  EXPECT_EQ(status.code, XLA_FFI_Error_Code_INVALID_ARGUMENT);
  EXPECT_EQ(status.message, "'b': there is no root rank 7: ranks are 0 to 0");
}

TEST(Handlers, NameAnAttributeThatIsMissingOrOfAnotherType) {
  for (const auto& [name, value] : sum_of(new_program(), "x")) {
    auto attributes = sum_of(new_program(), "x");
    attributes.erase(name);
    const XlaCustomCall call(attributes);
    EXPECT_EQ(call.compiled().code, XLA_FFI_Error_Code_INVALID_ARGUMENT);
    EXPECT_EQ(call.compiled().message.find("hora: attribute '" + name + "': "), 0U)
        << call.compiled().message;
  }
  auto attributes = sum_of(new_program(), "x");
  attributes["root"] = "0";
  EXPECT_EQ(XlaCustomCall(attributes).compiled().message.find("hora: attribute 'root': "), 0U);
}

TEST(Handlers, SayWhatIsMissingWithoutAJobAndAfterIt) {
  const XlaCustomCall call(sum_of(new_program(), "x"));
  ASSERT_TRUE(call.compiled().ok()) << "programs may be compiled before";
  Floats x{1};
  const auto expect_no_job = [&](const XlaStatus& status) {
    EXPECT_EQ(status.code, XLA_FFI_Error_Code_FAILED_PRECONDITION);
    EXPECT_EQ(status.message, "this process is in no job: call hora.jax.init() first");
  };
  expect_no_job(sum(call, x).wait());
  expect_no_job(call.execute_on_gpu({tensor(x)}, {tensor(x)}, nullptr, 0).wait());
  ASSERT_EQ(hora_init(), HORA_OK);
  EXPECT_TRUE(sum(call, x).wait().ok());
  ASSERT_EQ(hora_shutdown(nullptr), HORA_OK);
  expect_no_job(sum(call, x).wait());
  ASSERT_EQ(hora_init(), HORA_OK);
  EXPECT_TRUE(sum(call, x).wait().ok()) << "a compiled program runs in the next job, too";
  ASSERT_EQ(hora_shutdown(nullptr), HORA_OK);
}

TEST_F(HandlersOfTwoRanks, ReturnBeforeTheOtherRankHasCome) {
  const XlaCustomCall call(sum_of(new_program(), "x"));
  Floats x{1, 2, 3};
  for (int turn = 0; turn < 3; ++turn) {
    x = {1, 2, 3};
    const auto execution = sum(call, x);
    EXPECT_FALSE(execution.has_ended());
    EXPECT_EQ(Completions::of_process().waiting(), 1U);
    EXPECT_TRUE(join_in("x", 3).ok());
    ASSERT_TRUE(execution.wait().ok()) << execution.wait().message;
    EXPECT_EQ(x, (Floats{2, 3, 4}));
    EXPECT_NE(execution.ended_by(), std::this_thread::get_id());
  }
}

TEST_F(HandlersOfTwoRanks, KeepCallsOfOneNameApart) {
  const std::string program = new_program();
  const XlaCustomCall first(sum_of(program, "x"));
  const XlaCustomCall second(sum_of(program, "x"));
  Floats x{1};
  Floats y{10};
  const auto sum_of_x = sum(first, x);
  const auto sum_of_y = sum(second, y);
  EXPECT_TRUE(join_in("x#2", 1).ok());
  EXPECT_TRUE(sum_of_y.wait().ok()) << sum_of_y.wait().message;
  EXPECT_FALSE(sum_of_x.has_ended());
  EXPECT_TRUE(join_in("x", 1).ok());
  EXPECT_TRUE(sum_of_x.wait().ok()) << sum_of_x.wait().message;
  EXPECT_EQ(x, Floats{2});
  EXPECT_EQ(y, Floats{11});
}

TEST_F(HandlersOfTwoRanks, RefuseANameThatIsUnderWay) {
  const XlaCustomCall call(sum_of(new_program(), "x"));
  Floats x{1};
  Floats y{1};
  const auto execution = sum(call, x);
  const XlaStatus status = sum(call, y).wait();
  EXPECT_EQ(status.code, XLA_FFI_Error_Code_INVALID_ARGUMENT);
  EXPECT_NE(status.message.find("'x'"), std::string::npos) << status.message;
  EXPECT_TRUE(join_in("x", 1).ok());
  EXPECT_TRUE(execution.wait().ok());
}

TEST_F(HandlersOfTwoRanks, EndWhenTheOtherRankTakesThemInAnotherOrder) {
  constexpr int kCalls = 12;
  const std::string program = new_program();
  std::vector<std::unique_ptr<XlaCustomCall>> calls;
  for (int i = 0; i < kCalls; ++i)
    calls.push_back(std::make_unique<XlaCustomCall>(sum_of(program, "x" + std::to_string(i))));
  std::vector<Floats> data(kCalls, Floats{1, 2});
  std::vector<std::optional<XlaExecution>> executions(kCalls);
  run_ranks(3, [&](int thread) {  // as XLA's threads do, which do not wait for each other
    for (int i = thread; i < kCalls; i += 3) {
      const auto place = static_cast<std::size_t>(i);
      executions[place].emplace(sum(*calls[place], data[place]));
    }
  });
  for (int i = kCalls - 1; i >= 0; --i) EXPECT_TRUE(join_in("x" + std::to_string(i), 2).ok());
  for (const auto& execution : executions) EXPECT_TRUE(execution->wait().ok()) << execution->wait().message;
  for (const auto& each : data) EXPECT_EQ(each, (Floats{2, 3}));
}

TEST_F(HandlersOfTwoRanks, RefuseProgramsThatWereCompiledForAnotherNumberOfRanks) {
  auto attributes = sum_of(new_program(), "t");
  attributes["operation"] = HORA_ALLTOALL;
  attributes["splits"] = std::vector<std::int64_t>{3};
  attributes["ranks"] = 1;
  const XlaCustomCall call(attributes);
  Floats x{1, 2, 3};
  Floats y(3);
  const XlaStatus status = call.execute_on_host({tensor(x)}, {tensor(y)}).wait();
  EXPECT_EQ(status.code, XLA_FFI_Error_Code_FAILED_PRECONDITION);
  EXPECT_EQ(status.message,
            "'t': this program was compiled for rank 0 of 1, and this is rank 0 of 2: call "
            "jax.clear_caches() after init()");
}

TEST_F(HandlersOfTwoRanks, TellXlaThatRanksDisagree) {
  const XlaCustomCall call(sum_of(new_program(), "x"));
  Floats x{1, 2, 3};
  const auto execution = sum(call, x);
  EXPECT_EQ(join_in("x", 4).code, Code::mismatch);
  const XlaStatus status = execution.wait();
  EXPECT_EQ(status.code, XLA_FFI_Error_Code_INTERNAL);
  EXPECT_NE(status.message.find("'x'"), std::string::npos) << status.message;
}

TEST_F(HandlersOfTwoRanks, TellXlaThatTheJobHasFailed) {
  const XlaCustomCall call(sum_of(new_program(), "x"));
  Floats x{1, 2, 3};
  const auto execution = sum(call, x);
  other_->shutdown("no more power");
  const XlaStatus status = execution.wait();
  EXPECT_EQ(status.code, XLA_FFI_Error_Code_ABORTED);
  EXPECT_NE(status.message.find("no more power"), std::string::npos) << status.message;
}

}  // namespace
}  // namespace hora::jax
