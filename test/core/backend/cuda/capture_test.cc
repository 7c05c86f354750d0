// SPDX-License-Identifier: Apache-2.0
#include "core/backend/cuda/capture.h"

#include "core/backend/cuda/primary_ctx.h"
#include "test/support/fake_gpu/fake_driver.h"
#include "test/support/thrown.h"

#include <gtest/gtest.h>

namespace hora::cuda {
namespace {

class CaptureTest : public testing::Test {
 protected:
  FakeDriver fake;
  CudaDriver driver = fake.table();
  const PrimaryContext context{(static_cast<void>(count_gpus(driver)), driver), 0};
  const CurrentContext current{context};
  CUstream stream = fake.make_stream(0);
};

TEST_F(CaptureTest, TellsCapturesApart) {
  EXPECT_FALSE(capture_of(driver, stream));
  fake.capture(stream, true);
  const auto first = capture_of(driver, stream);
  ASSERT_TRUE(first);
  EXPECT_NE(first->graph, nullptr);
  fake.capture(stream, false);
  fake.capture(stream, true);
  EXPECT_NE(capture_of(driver, stream)->number, first->number);
  fake.capture(stream, false);
}

TEST_F(CaptureTest, SaysWhatIsWrongWithTheStream) {
  fake.capture(stream, true);
  EXPECT_EQ(thrown([&] { refuse_capture(driver, stream, "do that later"); }).message,
            "the stream is being captured into a CUDA graph: do that later");
  fake.capture(stream, false);
  refuse_capture(driver, stream, "do that later");

  fake.fail_call("cuStreamGetCaptureInfo", 1, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
  Status status = thrown([&] { (void)capture_of(driver, nullptr); });
  EXPECT_EQ(status.code, Code::invalid_argument);
  EXPECT_EQ(
      status.message,
      "CUDA's default stream waits for a stream that is being captured into a CUDA graph: use the stream "
      "that is being captured");

  driver.stream_get_capture_info = [](CUstream, CUstreamCaptureStatus* to, cuuint64_t*, CUgraph*,
                                      const CUgraphNode**, std::size_t*) {
    *to = CU_STREAM_CAPTURE_STATUS_INVALIDATED;
    return CUDA_SUCCESS;
  };
  status = thrown([&] { (void)capture_of(driver, stream); });
  EXPECT_EQ(status.code, Code::invalid_argument);
  EXPECT_EQ(
      status.message,
      "an error has ended the capture of the stream into a CUDA graph: end the capture, and see what that "
      "says");
}

}  // namespace
}  // namespace hora::cuda
