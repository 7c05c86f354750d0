// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>

#include <cstddef>

/// As the driver has it beside that of the headers' version.
extern "C" CUresult cuStreamGetCaptureInfo_v2(CUstream stream, CUstreamCaptureStatus* status,
                                              cuuint64_t* number, CUgraph* graph,
                                              const CUgraphNode** dependencies, std::size_t* count);
