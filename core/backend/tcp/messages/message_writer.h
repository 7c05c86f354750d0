// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/tcp/data_socket.h"
#include "core/base/bytes.h"
#include "core/comm/delivery.h"

#include <hora/status.h>

#include <deque>
#include <optional>
#include <span>

namespace hora::tcp {

/// A chunk of bytes to be written to a socket: the head of a frame, and elements.
struct Chunk {
  Bytes head;                                    ///< encoded
  std::span<const std::byte> elements = {};      ///< lent until `done`
  std::function<void(const Status&)> done = {};  ///< may be empty
};

/// Chunks on their way into a socket, one after the other, their heads sealed. Nothing blocks. Not
/// thread-safe.
class MessageWriter {
 public:
  /// Before the first `flush`: what to seal with, also what has been put already.
  void open(Cipher cipher);
  void put(Chunk chunk);
  /// Writes what the socket takes, up to a megabyte; tells who waits for what is written. Shuts the socket
  /// down if nothing can be written to it any more.
  void flush(DataSocket& socket, Calls& calls);
  /// Whether `flush` has nothing to do: all is written, or nothing more can be.
  [[nodiscard]] bool idle() const { return broken_ || chunks_.empty(); }
  /// Drops what is left, and says why.
  void fail(const Status& why, Calls& calls);

 private:
  /// Up to a megabyte of what is to be written. The bytes that the socket has taken, or -1.
  ssize_t write_some(DataSocket& socket);
  void advance(std::size_t bytes, Calls& calls);

  std::optional<Cipher> cipher_;
  std::deque<Chunk> chunks_;  // once there is a cipher, with sealed heads
  std::size_t written_ = 0;   // of the first one
  bool broken_ = false;
};

}  // namespace hora::tcp
