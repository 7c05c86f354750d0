// SPDX-License-Identifier: Apache-2.0
// Members and peer lists, as ranks send them when they meet.
#include "core/join/peer_list.h"

#include <cstddef>
#include <cstdint>
#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span bytes(reinterpret_cast<const std::byte*>(data), size);
  try {
    const hora::PeerList peer_list = hora::decode_peer_list(bytes, 3);
    if (!(hora::decode_peer_list(hora::encode(peer_list), 3) == peer_list)) std::abort();
  } catch (const hora::Error&) {
  }
  try {
    static_cast<void>(hora::decode_member(bytes, 1));
  } catch (const hora::Error&) {
    return 0;
  }
  return 0;
}
