// SPDX-License-Identifier: Apache-2.0
// The report of a launcher about a rank's end: the same after encoding and decoding, or refused by an Error.
#include "core/launcher/news.h"

#include <hora/status.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const auto end = hora::decode_rank_end({reinterpret_cast<const std::byte*>(data), size});
    if (hora::decode_rank_end(hora::encode(end)) != end) std::abort();
  } catch (const hora::Error&) {
    return 0;
  }
  return 0;
}
