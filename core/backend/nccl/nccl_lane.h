// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/cuda/cuda_stream.h"
#include "core/backend/nccl/communicator.h"

#include <memory>

namespace hora::nccl {

/// As NcclModule::make_lane. `stream` is one of the GPU's.
std::unique_ptr<NcclLane> make_nccl_lane(NcclSeat seat, cuda::CudaStream& stream);

}  // namespace hora::nccl
