// SPDX-License-Identifier: Apache-2.0
#include "core/backend/cuda/gpu.h"

#include "core/base/memory.h"

#include "test/support/fake_gpu/fake_driver.h"
#include "test/support/fake_gpu/waiting.h"
#include "test/support/thrown.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <future>
#include <optional>
#include <set>
#include <thread>
#include <vector>

namespace hora::cuda {
namespace {

using testing::HasSubstr;

TEST(OpenCudaGpu, SaysHowManyThereAre) {
  const FakeDriver fake({FakeGpu{}, FakeGpu{}});
  for (const int index : {-1, 2}) {
    const Status status = thrown([&] { (void)open_cuda_gpu(fake.table(), index); });
    EXPECT_EQ(status.code, Code::invalid_argument);
    EXPECT_THAT(status.message, HasSubstr("this process may use 2 GPUs; see what CUDA_VISIBLE_DEVICES says"));
  }
}

TEST(CudaGpu, KnowsWhatItIs) {
  const FakeDriver fake({FakeGpu{}, FakeGpu{"NVIDIA H200"}});
  const auto gpu = open_cuda_gpu(fake.table(), 1);
  EXPECT_EQ(gpu->index(), 1);
  EXPECT_EQ(gpu->name(), "NVIDIA H200");
  EXPECT_NE(gpu->identity(), open_cuda_gpu(fake.table(), 0)->identity());
  EXPECT_EQ(gpu->identity(), open_cuda_gpu(fake.table(), 1)->identity());
  EXPECT_NE(gpu->location(), open_cuda_gpu(fake.table(), 0)->location());
}

TEST(CudaGpu, HasOnePlaceForTwoPartsOfOneGpu) {
  FakeGpu part;
  part.pci_bus = 0x1b;
  const FakeDriver fake({part, part, FakeGpu{}});
  const auto one = open_cuda_gpu(fake.table(), 0);
  const auto other = open_cuda_gpu(fake.table(), 1);
  EXPECT_NE(one->identity(), other->identity());
  EXPECT_EQ(one->location(), other->location());
  EXPECT_NE(one->location(), open_cuda_gpu(fake.table(), 2)->location());
}

TEST(CudaGpu, SaysWhoseMemoryItIs) {
  const FakeDriver fake({FakeGpu{}, FakeGpu{}});
  const auto gpu = open_cuda_gpu(fake.table(), 0);
  const auto other = open_cuda_gpu(fake.table(), 1);
  gpu->check(gpu->allocate(4).get(), "its input");
  gpu->check(gpu->allocate(8).get() + 7, "its input");
  gpu->check(gpu->allocate_pinned(4).get(), "its input");
  gpu->check(other->allocate_pinned(4).get(), "its input");
  const auto theirs = other->allocate(4);
  Status status = thrown([&] { gpu->check(theirs.get(), "its input"); });
  EXPECT_EQ(status.code, Code::invalid_argument);
  EXPECT_EQ(status.message, "its input is said to lie in the memory of cuda:0, but lies in that of cuda:1");
  const int hosts = 0;
  status = thrown([&] { gpu->check(&hosts, "its output"); });
  EXPECT_EQ(status.message,
            "its output is said to lie in the memory of cuda:0, but lies in memory of the host's that no GPU "
            "reaches");
}

TEST(CudaGpu, RefusesAStreamThatIsBeingCaptured) {
  FakeDriver fake;
  const auto gpu = open_cuda_gpu(fake.table(), 0);
  const CUstream stream = fake.make_stream(0);
  fake.capture(stream, true);
  for (const auto& status :
       {thrown([&] { (void)gpu->mark(stream); }), thrown([&] { (void)gpu->allocate_on(stream, 4); })}) {
    EXPECT_EQ(status.code, Code::invalid_argument);
    EXPECT_THAT(status.message, HasSubstr("the stream is being captured into a CUDA graph: "));
  }
  EXPECT_FALSE(fake.spoilt_capture());
  fake.capture(stream, false);
  wait_for(gpu->mark(stream).get());
}

TEST(CudaGpu, RefusesTheLegacyStreamWhileAnotherThatBlocksItIsBeingCaptured) {
  FakeDriver fake;
  const auto gpu = open_cuda_gpu(fake.table(), 0);
  fake.fail_call("cuStreamGetCaptureInfo", 1, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
  EXPECT_EQ(thrown([&] { (void)gpu->mark(nullptr); }).code, Code::invalid_argument);
}

TEST(CudaGpu, GoesOnWhileTheProgramCapturesAnotherStream) {
  FakeDriver fake;
  const auto gpu = open_cuda_gpu(fake.table(), 0);
  const CUstream captured = fake.make_stream(0);
  fake.capture(captured, true);
  const auto stream = gpu->make_stream();
  const auto memory = gpu->allocate(16);
  const auto pinned = gpu->allocate_pinned(16);
  stream->copy(memory.get(), pinned.get(), 16);
  wait_for(stream->mark().get());
  EXPECT_FALSE(fake.spoilt_capture());
}

TEST(CudaGpu, GivesMemoryThatIsZero) {
  const FakeDriver fake;
  const auto gpu = open_cuda_gpu(fake.table(), 0);
  const auto memory = gpu->allocate(1000);
  EXPECT_TRUE(
      std::all_of(memory.get(), memory.get() + 1000, [](std::byte each) { return each == std::byte{0}; }));
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory.get()) % 256, 0U);
  EXPECT_NE(gpu->allocate(0), nullptr);
}

TEST(CudaGpu, FreesMemoryBehindTheStreamThatUsesIt) {
  FakeDriver fake;
  const auto gpu = open_cuda_gpu(fake.table(), 0);
  const CUstream stream = fake.make_stream(0);
  const CurrentContext current(*gpu->context());
  HeldStream gate(stream);
  auto memory = gpu->allocate_on(stream, 64);
  fake.table().memset_d8_async(reinterpret_cast<CUdeviceptr>(memory.get()), 1, 64, stream);
  memory = nullptr;
  EXPECT_EQ(fake.usage(0).blocks, 1U);
  gate.open();
  fake.finish(0);
  EXPECT_EQ(fake.usage(0).blocks, 0U);
}

TEST(CudaGpu, TakesMemoryForAStreamOfItsOwnAndFreesItBehindTheUsers) {
  FakeDriver fake;
  const auto gpu = open_cuda_gpu(fake.table(), 0);
  const auto own = gpu->make_stream();
  const CUstream users = fake.make_stream(0);
  const auto before = fake.usage(0).blocks;
  const CurrentContext current(*gpu->context());
  HeldStream gate(users);
  auto memory = gpu->allocate_between(*own, users, 64);
  own->set_bytes(memory.get(), std::byte{0}, 64);
  wait_for(own->mark().get());
  EXPECT_EQ(memory.get()[63], std::byte{0}) << "it waits for nothing that is on the user's";
  memory = nullptr;
  EXPECT_EQ(fake.usage(0).blocks, before + 1);
  gate.open();
  fake.finish(0);
  EXPECT_EQ(fake.usage(0).blocks, before);
}

TEST(CudaGpu, AllocatesForAStreamWithoutMemoryPools) {
  FakeGpu kind;
  kind.memory_pools = false;
  FakeDriver fake({kind});
  const auto gpu = open_cuda_gpu(fake.table(), 0);
  const CUstream stream = fake.make_stream(0);
  auto memory = gpu->allocate_on(stream, 64);
  fake.table().memset_d8_async(reinterpret_cast<CUdeviceptr>(memory.get()), 1, 64, stream);
  memory = nullptr;
  EXPECT_EQ(fake.usage(0).blocks, 0U);
  EXPECT_EQ(fake.calls("cuMemAllocFromPoolAsync"), 0);
}

TEST(CudaGpu, FreesMemoryLaterWhoseStreamIsGoneOrBeingCaptured) {
  FakeDriver fake;
  auto gpu = open_cuda_gpu(fake.table(), 0);
  CUstream gone = nullptr;
  {
    const CurrentContext current(*gpu->context());
    fake.table().stream_create_with_priority(&gone, CU_STREAM_NON_BLOCKING, 0);
  }
  auto memory = gpu->allocate_on(gone, 64);
  fake.table().stream_destroy(gone);
  memory = nullptr;
  const CUstream captured = fake.make_stream(0);
  memory = gpu->allocate_on(captured, 64);
  fake.capture(captured, true);
  memory = nullptr;
  fake.finish(0);
  EXPECT_EQ(fake.usage(0).blocks, 2U);
  EXPECT_FALSE(fake.spoilt_capture());
  fake.capture(captured, false);
  memory = gpu->allocate_on(captured, 64);
  fake.finish(0);
  EXPECT_EQ(fake.usage(0).blocks, 2U);
  memory = nullptr;
  gpu = nullptr;
  EXPECT_EQ(fake.usage(0).blocks, 0U);
}

TEST(CudaGpu, SaysHowMuchIsFreeWhenThereIsTooLittle) {
  FakeGpu kind;
  kind.memory = 8 << 20;
  FakeDriver fake({kind});
  const auto gpu = open_cuda_gpu(fake.table(), 0);
  const auto half = gpu->allocate(4 << 20);
  for (const auto& status : {thrown([&] { (void)gpu->allocate(6 << 20); }),
                             thrown([&] { (void)gpu->allocate_on(nullptr, 6 << 20); })}) {
    EXPECT_EQ(status.code, Code::unavailable);
    EXPECT_THAT(status.message,
                HasSubstr("cannot take 6.0 MiB of the memory of cuda:0: 4.0 MiB of 8.0 MiB are free; "));
  }
  fake.fail_call("cuMemHostAlloc", 1, CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_THAT(thrown([&] { (void)gpu->allocate_pinned(1 << 20); }).message,
              HasSubstr("cannot pin 1.0 MiB of the host's memory for copies to and from cuda:0"));
}

TEST(CudaGpu, CountsWhatIsTaken) {
  const FakeDriver fake;
  const auto gpu = open_cuda_gpu(fake.table(), 0);
  auto a = gpu->allocate(1000);
  const auto b = gpu->allocate_on(nullptr, 24);
  const auto c = gpu->allocate_pinned(7);
  gpu->count_taken(100);
  gpu->count_nccl(5000);
  const std::size_t before = gpu->free_memory();
  EXPECT_EQ(gpu->memory().taken, 1124U);
  EXPECT_EQ(gpu->memory().pinned, 7U);
  EXPECT_EQ(gpu->memory().nccl, 5000U);
  a = nullptr;
  EXPECT_EQ(gpu->memory().taken, 124U);
  EXPECT_EQ(gpu->free_memory(), before + 1000);
}

TEST(CudaGpu, LeavesMemoryToItsOwnersWhenItIsGone) {
  std::optional<FakeDriver> fake(std::in_place);
  auto gpu = open_cuda_gpu(fake->table(), 0);
  auto early = gpu->allocate(16);
  auto late = gpu->allocate(16);
  auto pinned = gpu->allocate_pinned(16);
  auto stream = gpu->make_stream();
  auto event = stream->mark();
  gpu = nullptr;
  std::memset(early.get(), 1, 16);
  early = nullptr;
  EXPECT_EQ(fake->usage(0).blocks, 1U);
  fake.reset();  // the driver has shut down, as at the end of a process
  late = nullptr;
  pinned = nullptr;
  stream = nullptr;
  event = nullptr;
}

TEST(CudaGpu, ServesManyThreads) {
  FakeDriver fake({FakeGpu{}, FakeGpu{}});
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 4; ++rank) {
    ranks.emplace_back([&fake, rank] {
      const auto gpu = open_cuda_gpu(fake.table(), rank % 2);
      const auto stream = gpu->make_stream();
      const auto memory = gpu->allocate(256);
      for (int i = 1; i < 20; ++i) {
        const auto pinned = gpu->allocate_pinned(256);
        std::memset(pinned.get(), i, 256);
        stream->copy(memory.get(), pinned.get(), 256);
        wait_for(stream->mark().get());
        EXPECT_EQ(memory.get()[255], static_cast<std::byte>(i));
      }
    });
  }
  for (auto& rank : ranks) rank.join();
  EXPECT_EQ(fake.usage(0), (FakeUsage{.peak_bytes = fake.usage(0).peak_bytes}));
}

TEST(CudaGpu, PinsMemoryOfTheHostsForAsLongAsItIsUsed) {
  FakeDriver fake;
  const auto gpu = open_cuda_gpu(fake.table(), 0);
  auto memory = allocate_zeroed(4096);
  const std::weak_ptr<std::byte> owned = memory;
  auto pinned = gpu->pin(std::move(memory), 4096);
  EXPECT_EQ(gpu->memory().pinned, 4096U);
  gpu->check(pinned.get(), "its input");
  EXPECT_EQ(gpu->pin(pinned, 4096), pinned) << "the driver refuses what is pinned already";
  pinned = nullptr;
  EXPECT_EQ(gpu->memory().pinned, 0U);
  EXPECT_TRUE(owned.expired());
}

/// A capture of a stream of its own.
struct Captured {
  explicit Captured(FakeDriver& driver) : fake(driver) { fake.capture(stream, true); }
  ~Captured() { fake.capture(stream, false); }
  Captured(const Captured&) = delete;
  Captured& operator=(const Captured&) = delete;

  FakeDriver& fake;
  CUstream stream = fake.make_stream(0);
};

/// Everything that a rank does with a GPU.
void use(FakeDriver& fake, CUstream theirs) {
  const auto gpu = open_cuda_gpu(fake.table(), 0);
  (void)gpu->name();
  (void)gpu->identity();
  const auto stream = gpu->make_stream();
  const auto memory = gpu->allocate(64);
  const auto result = gpu->allocate_on(theirs, 64);
  const auto pinned = gpu->allocate_pinned(64);
  const auto registered = gpu->pin(allocate_zeroed(64), 64);
  gpu->check(memory.get(), "its input");
  (void)gpu->free_memory();
  stream->wait(*gpu->mark(theirs));
  const Move move{result.get(), memory.get(), 16};
  const auto flag = stream->make_flag();
  stream->move({&move, 1}, {DType::float16, DType::float32, 1.0, flag.get()});
  stream->copy(pinned.get(), result.get(), 64);
  stream->set_bytes(memory.get(), std::byte{0}, 64);
  {
    const Captured captured(fake);
    const auto request = gpu->request_in_graph(captured.stream);
    request->hold_up(captured.stream);
    request->release(*stream);
  }
  const auto event = stream->mark();
  event->hold_up(theirs);
  wait_for(event.get());
  gpu->finish();
}

bool gives_back(const std::string& function) {
  static const std::set<std::string> all{
      "cuDevicePrimaryCtxRelease", "cuCtxPopCurrent",  "cuMemFree",       "cuMemFreeAsync", "cuMemFreeHost",
      "cuMemHostUnregister",       "cuMemPoolDestroy", "cuStreamDestroy", "cuEventDestroy", "cuModuleUnload"};
  return all.contains(function);
}

/// Without which nothing can be given back.
bool enters(const std::string& function) {
  return function == "cuCtxPushCurrent" || function == "cuThreadExchangeStreamCaptureMode";
}

/// The name by which cuda.h has it.
std::string plain(std::string name) {
  if (name.ends_with("_v2")) name.resize(name.size() - 3);
  return name;
}

/// Lets the nth call fail. False: there is none. In a thread of its own, as the driver may not put back what
/// it knows of the thread.
bool fail_once(const std::string& function, int nth) {
  FakeDriver fake;
  const CUstream theirs = fake.make_stream(0);
  fake.fail_call(function, nth, CUDA_ERROR_UNKNOWN);
  const Status status = thrown([&] { use(fake, theirs); });
  if (fake.calls(function) < nth) return false;
  fake.finish(0);
  if (status.ok()) {
    EXPECT_TRUE(gives_back(function) || enters(function) || function == "cuStreamIsCapturing" ||
                function == "cuMemHostRegister")
        << function << nth;
  } else {
    EXPECT_THAT(status.message, HasSubstr(function)) << nth;
    EXPECT_THAT(status.message, HasSubstr("failed with CUDA_ERROR_UNKNOWN: unknown error")) << nth;
  }
  if (!enters(function)) {
    EXPECT_EQ(fake.usage(0), (FakeUsage{.peak_bytes = fake.usage(0).peak_bytes})) << function << nth;
  }
  CUcontext current = nullptr;
  ::cuCtxGetCurrent(&current);
  EXPECT_EQ(current, nullptr) << function << nth;
  return true;
}

TEST(CudaGpu, SaysWhichCallFailedAndLeavesNothingBehind) {
  std::vector<std::string> functions;
  CudaDriver driver;
  for_each_function(driver, [&](auto&, const char* name) { functions.push_back(plain(name)); });
  for (const auto& function : functions) {
    if (function == "cuGetErrorName" || function == "cuGetErrorString") continue;
    if (function == "cuUserObjectRelease") continue;  // where another call has failed
    int nth = 1;
    while (std::async(std::launch::async, fail_once, function, nth).get()) ++nth;
    EXPECT_GT(nth, 1) << function << " is not used";
  }
}

}  // namespace
}  // namespace hora::cuda
