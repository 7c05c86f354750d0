// SPDX-License-Identifier: Apache-2.0
// The stream of a socket for messages: it is cut into the same frames however it arrives, or refused by an
// Error. A head that is accepted is written again as it was meant.
#include "core/backend/tcp/messages/message_reader.h"
#include "core/base/socket_io.h"

#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <vector>

namespace {

const hora::Secret kKey{7};
constexpr std::size_t kContent = 1000;  // bytes of every message that was asked for

/// The frames, one after the other; the last one is empty if they end in an Error.
std::vector<hora::Bytes> frames(std::span<const std::byte> bytes, std::size_t step) {
  std::array<int, 2> fds{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds.data()) != 0) std::abort();
  hora::tcp::DataSocket here{hora::Descriptor(fds[0])};
  const hora::Descriptor there(fds[1]);
  hora::Bytes content(kContent);
  hora::tcp::MessageReader reader(1, [&](std::uint64_t) { return std::span(content); });
  reader.open(hora::Cipher(kKey));
  std::vector<hora::Bytes> all;
  try {
    for (std::size_t at = 0; at < bytes.size(); at += step) {
      const auto piece = bytes.subspan(at, std::min(step, bytes.size() - at));
      if (::send(there.fd(), piece.data(), piece.size(), 0) != static_cast<ssize_t>(piece.size()))
        std::abort();
      while (const auto received = reader.next(here)) {
        all.push_back(encode(received->frame));
        const bool whole = received->frame.kind == hora::tcp::MessageFrameKind::whole;
        const auto elements = whole ? received->elements : std::span<const std::byte>(content);
        if (received->frame.kind != hora::tcp::MessageFrameKind::announcement)
          all.back().insert(all.back().end(), elements.begin(), elements.end());
      }
    }
  } catch (const hora::Error&) {
    all.emplace_back();
  }
  return all;
}

/// A stream of the bytes: the length of a head, the head, which is sealed, the length of elements, those, and
/// so on.
hora::Bytes stream_of(std::span<const std::byte> bytes) {
  hora::Cipher cipher(kKey);
  hora::Bytes stream;
  for (bool head = true; !bytes.empty(); head = !head) {
    const std::size_t length = std::min(std::to_integer<std::size_t>(bytes[0]), bytes.size() - 1);
    const auto piece = bytes.subspan(1, length);
    const hora::Bytes more =
        head ? hora::tcp::seal_message_head(cipher, piece) : hora::Bytes(piece.begin(), piece.end());
    stream.insert(stream.end(), more.begin(), more.end());
    bytes = bytes.subspan(1 + length);
  }
  return stream;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span bytes(reinterpret_cast<const std::byte*>(data), std::min<std::size_t>(size, 4096));
  if (frames(bytes, bytes.size() + 1) != frames(bytes, 7)) std::abort();
  const hora::Bytes stream = stream_of(bytes);
  if (frames(stream, stream.size() + 1) != frames(stream, 7)) std::abort();
  try {
    const auto frame = hora::tcp::decode_message_frame(bytes, 1);
    const auto again = encode(frame);
    if (hora::tcp::decode_message_frame(again, 1) != frame) std::abort();
  } catch (const hora::Error&) {
    return 0;
  }
  return 0;
}
