// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/device/gpu.h"
#include "core/device/stream.h"

#include <cstddef>
#include <cstring>
#include <memory>
#include <vector>

namespace hora {

/// Bytes in a GPU's memory, and the same in the host's, so that what a GPU makes of them can be compared with
/// what a CPU makes of them: all of them, also those that nothing should touch. One thread's.
class Mirror {
 public:
  Mirror(Gpu& gpu, Stream& stream, std::vector<std::byte> bytes)
      : stream_(stream),
        host_(std::move(bytes)),
        there_(gpu.allocate(host_.size())),
        pinned_(gpu.allocate_pinned(host_.size())) {
    std::memcpy(pinned_.get(), host_.data(), host_.size());
    stream_.copy(there_.get(), pinned_.get(), host_.size());
    finish();
  }

  [[nodiscard]] std::byte* host(std::size_t offset = 0) { return host_.data() + offset; }
  [[nodiscard]] std::byte* gpu(std::size_t offset = 0) { return there_.get() + offset; }

  /// The contents of the GPU's memory, when all work on the stream is done.
  [[nodiscard]] std::vector<std::byte> read() {
    stream_.copy(pinned_.get(), there_.get(), host_.size());
    finish();
    return {pinned_.get(), pinned_.get() + host_.size()};
  }
  [[nodiscard]] const std::vector<std::byte>& expected() const { return host_; }

 private:
  void finish() {
    const auto end = stream_.mark();
    while (end && !end->reached()) continue;
  }

  Stream& stream_;
  std::vector<std::byte> host_;
  std::shared_ptr<std::byte> there_;
  std::shared_ptr<std::byte> pinned_;
};

/// The first byte that differs; the size of both if none does.
inline std::size_t first_difference(const std::vector<std::byte>& a, const std::vector<std::byte>& b) {
  std::size_t i = 0;
  while (i < a.size() && a[i] == b[i]) ++i;
  return i;
}

}  // namespace hora
