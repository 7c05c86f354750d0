// SPDX-License-Identifier: Apache-2.0
// The messages between hrun and the members of an elastic job. The first byte chooses which. One that is read
// is written and read again, and is the same.
#include "core/elastic/message.h"

#include <hora/status.h>

#include <cstdlib>
#include <span>

namespace {

using namespace hora::elastic;

template <typename Message>
void check(const Message& message, Message (*decode)(std::span<const std::byte>)) {
  if (decode(encode(message)) != message) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  if (size == 0) return 0;
  const std::span bytes(reinterpret_cast<const std::byte*>(data + 1), size - 1);
  try {
    if (data[0] % 2 == 0) {
      check(decode_leader_message(bytes), decode_leader_message);
    } else {
      check(decode_member_message(bytes), decode_member_message);
    }
  } catch (const hora::Error&) {
  }
  return 0;
}
