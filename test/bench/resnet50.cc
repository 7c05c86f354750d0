// SPDX-License-Identifier: Apache-2.0
#include "test/bench/resnet50.h"

namespace hora::bench {

std::vector<std::int64_t> resnet50() {
  std::vector<std::int64_t> sizes;
  const auto convolution = [&](std::int64_t in, std::int64_t out, std::int64_t kernel) {
    sizes.insert(sizes.end(), {in * out * kernel * kernel, out, out});  // and its batch norm
  };
  convolution(3, 64, 7);
  std::int64_t in = 64;
  std::int64_t width = 64;
  for (const int blocks : {3, 4, 6, 3}) {
    for (int block = 0; block < blocks; ++block) {
      convolution(in, width, 1);
      convolution(width, width, 3);
      convolution(width, 4 * width, 1);
      if (block == 0) convolution(in, 4 * width, 1);
      in = 4 * width;
    }
    width *= 2;
  }
  sizes.insert(sizes.end(), {2048 * 1000, 1000});
  return sizes;
}

}  // namespace hora::bench
