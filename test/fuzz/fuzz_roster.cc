// SPDX-License-Identifier: Apache-2.0
// Members and rosters, as ranks send them when they meet.
#include "core/join/roster.h"

#include <cstddef>
#include <cstdint>
#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span bytes(reinterpret_cast<const std::byte*>(data), size);
  try {
    const hora::Roster roster = hora::decode_roster(bytes, 3);
    if (!(hora::decode_roster(hora::encode(roster), 3) == roster)) std::abort();
  } catch (const hora::Error&) {
  }
  try {
    static_cast<void>(hora::decode_member(bytes, 1));
  } catch (const hora::Error&) {
    return 0;
  }
  return 0;
}
