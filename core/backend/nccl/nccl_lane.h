// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/cuda/cuda_stream.h"
#include "core/backend/nccl/communicator.h"

#include <memory>

namespace hora::nccl {

/// Implements NcclModule::make_lane. `context`: the GPU and the NCCL to use. `stream`: a stream of that GPU,
/// on which all work of the lane is ordered.
std::unique_ptr<NcclLane> make_nccl_lane(NcclContext context, cuda::CudaStream& stream);

}  // namespace hora::nccl
