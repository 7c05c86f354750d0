// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

namespace hora::bench {

/// Elements of the parameters of ResNet-50 (He et al., 2016), in the order of the model: 161 tensors, 102 MB
/// of float32.
[[nodiscard]] std::vector<std::int64_t> resnet50();

}  // namespace hora::bench
