// SPDX-License-Identifier: Apache-2.0
// Ballots: a ballot that decodes must mean the same when it is sent again; everything else must be refused by
// an Error.
#include "core/negotiate/message.h"

#include <cstddef>
#include <cstdint>
#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span bytes(reinterpret_cast<const std::byte*>(data), size);
  try {
    const auto ballots = hora::decode_ballots(bytes, 4);
    if (hora::encode(hora::decode_ballots(hora::encode(ballots), 4)) != hora::encode(ballots)) std::abort();
  } catch (const hora::Error&) {
    return 0;
  }
  return 0;
}
