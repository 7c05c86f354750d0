// SPDX-License-Identifier: Apache-2.0
// Questions, and the replies of ranks: a message that decodes must mean the same when it is sent again;
// everything else must be refused by an Error.
#include "core/launcher/health.h"
#include "core/launcher/question.h"

#include <hora/status.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>

namespace {

template <typename Decode>
void try_to(Decode decode, std::span<const std::byte> bytes) {
  try {
    const auto value = decode(bytes);
    if (decode(hora::encode(value)) != value) std::abort();
  } catch (const hora::Error&) {
    return;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span bytes(reinterpret_cast<const std::byte*>(data), size);
  try_to(hora::decode_question, bytes);
  try_to(hora::decode_reply, bytes);
  try_to(hora::decode_health, bytes);
  try_to(hora::decode_job_health, bytes);
  return 0;
}
