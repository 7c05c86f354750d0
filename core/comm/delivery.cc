// SPDX-License-Identifier: Apache-2.0
#include "core/comm/delivery.h"

#include <cstring>

namespace hora {

std::size_t content_bytes(const Envelope& envelope) {
  constexpr std::int64_t kMost = std::int64_t{1} << 62;
  auto bytes = static_cast<std::int64_t>(size_of(envelope.dtype));
  bool empty = false;
  for (const auto extent : envelope.shape) {
    if (extent < 0) throw Error(Code::invalid_argument, "no message can have a negative dimension");
    empty = empty || extent == 0;
  }
  if (empty) return 0;
  for (const auto extent : envelope.shape) {
    if (__builtin_mul_overflow(bytes, extent, &bytes) || bytes > kMost)
      throw Error(Code::invalid_argument, "no message can have that many elements");
  }
  return static_cast<std::size_t>(bytes);
}

std::shared_ptr<std::byte> copy_of(const void* elements, std::size_t bytes) {
  std::shared_ptr<std::byte> copy(new std::byte[bytes], std::default_delete<std::byte[]>());
  if (bytes > 0) std::memcpy(copy.get(), elements, bytes);
  return copy;
}

void deliver(const Incoming& waiting, const Envelope& envelope, const void* elements) {
  try {
    void* memory = waiting.memory_for(envelope);
    if (const auto bytes = content_bytes(envelope); bytes > 0) std::memcpy(memory, elements, bytes);
  } catch (const Error& error) {
    return waiting.done(error.status(), &envelope);
  }
  waiting.done({}, &envelope);
}

void fail(std::list<Incoming> waiting, const Status& why, Calls& calls) {
  for (auto& wanted : waiting) {
    calls.emplace_back([done = std::move(wanted.done), why] { done(why, nullptr); });
  }
}

}  // namespace hora
