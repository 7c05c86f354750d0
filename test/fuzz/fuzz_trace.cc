// SPDX-License-Identifier: Apache-2.0
// Parts of timelines: a part that decodes must mean the same when it is sent again; everything else must be
// refused by an Error.
#include "core/watch/trace.h"

#include <cstddef>
#include <cstdint>
#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span bytes(reinterpret_cast<const std::byte*>(data), size);
  try {
    const hora::TracePart part = hora::decode_trace(bytes);
    if (hora::encode(hora::decode_trace(hora::encode(part))) != hora::encode(part)) std::abort();
  } catch (const hora::Error&) {
    return 0;
  }
  return 0;
}
