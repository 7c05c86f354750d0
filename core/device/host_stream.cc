// SPDX-License-Identifier: Apache-2.0
#include "core/device/host_stream.h"

#include "core/device/kernels.h"

#include <cstring>

namespace hora {
namespace {

class HostStream final : public Stream {
 public:
  void copy(void* to, const void* from, std::size_t bytes) override {
    if (bytes > 0) std::memmove(to, from, bytes);
  }
  void zero(void* to, std::size_t bytes) override {
    if (bytes > 0) std::memset(to, 0, bytes);
  }
  void cast(void* to, DType to_dtype, const void* from, DType from_dtype, std::size_t count) override {
    kernels::cast(to, to_dtype, from, from_dtype, count);
  }
};

}  // namespace

std::unique_ptr<Stream> make_host_stream() { return std::make_unique<HostStream>(); }

}  // namespace hora
