// SPDX-License-Identifier: Apache-2.0
// Frames: a stream is cut into the same frames however it arrives, or refused by an Error.
#include "core/backend/tcp/frame.h"

#include <vector>

namespace {

std::vector<hora::Frame> frames(std::span<const std::byte> bytes, std::size_t step) {
  std::vector<hora::Frame> all;
  hora::FrameReader reader;
  for (std::size_t at = 0; at < bytes.size(); at += step) {
    reader.feed(bytes.subspan(at, std::min(step, bytes.size() - at)));
    while (auto frame = reader.next()) all.push_back(*std::move(frame));
  }
  return all;
}

}  // namespace

#include <cstddef>
#include <cstdint>
#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span bytes(reinterpret_cast<const std::byte*>(data), size);
  try {
    const auto whole = frames(bytes, size + 1);
    if (frames(bytes, 3) != whole) std::abort();
    for (const auto& frame : whole) static_cast<void>(hora::decode_loss(frame.bytes, 4));
  } catch (const hora::Error&) {
    return 0;
  }
  return 0;
}
