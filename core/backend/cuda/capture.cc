// SPDX-License-Identifier: Apache-2.0
#include "core/backend/cuda/capture.h"

#include <hora/status.h>

#include <fmt/format.h>

namespace hora::cuda {

std::optional<Capture> capture_of(const CudaDriver& driver, CUstream stream) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  Capture capture;
  const CUresult result =
      driver.stream_get_capture_info(stream, &status, &capture.number, &capture.graph, nullptr, nullptr);
  if (result == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT) {
    throw Error(Code::invalid_argument,
                "CUDA's default stream waits for a stream that is being captured into a CUDA graph: use the "
                "stream that is being captured");
  }
  driver.check(result, "cuStreamGetCaptureInfo");
  if (status == CU_STREAM_CAPTURE_STATUS_NONE) return std::nullopt;
  if (status == CU_STREAM_CAPTURE_STATUS_ACTIVE) return capture;
  throw Error(Code::invalid_argument,
              "an error has ended the capture of the stream into a CUDA graph: end the capture, and see what "
              "that says");
}

void refuse_capture(const CudaDriver& driver, CUstream stream, const char* remedy) {
  if (!capture_of(driver, stream)) return;
  throw Error(Code::invalid_argument,
              fmt::format("the stream is being captured into a CUDA graph: {}", remedy));
}

}  // namespace hora::cuda
