// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/comm/control.h"
#include "core/comm/delivery.h"

#include <deque>
#include <span>

namespace hora {

/// What is to be written to a socket: the head of a frame, and elements.
struct Chunk {
  Bytes head;
  std::span<const std::byte> elements = {};      ///< lent until `done`
  std::function<void(const Status&)> done = {};  ///< may be empty
};

/// Chunks on their way into a socket, one after the other. Nothing blocks. Not thread-safe.
class MessageWriter {
 public:
  void put(Chunk chunk) { chunks_.push_back(std::move(chunk)); }
  /// Writes what the socket takes, up to a megabyte; tells who waits for what is written. Shuts the socket
  /// down if nothing can be written to it any more.
  void flush(int socket, Calls& calls);
  /// Whether `flush` has nothing to do: all is written, or nothing more can be.
  [[nodiscard]] bool idle() const { return broken_ || chunks_.empty(); }
  /// Drops what is left, and says why.
  void fail(const Status& why, Calls& calls);

 private:
  /// Up to a megabyte of what is to be written. The bytes that the socket has taken, or -1.
  ssize_t write_some(int socket);
  void advance(std::size_t bytes, Calls& calls);

  std::deque<Chunk> chunks_;
  std::size_t written_ = 0;  // of the first one
  bool broken_ = false;
};

}  // namespace hora
