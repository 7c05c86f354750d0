// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/join/handshake.h"

#include <sys/types.h>
#include <sys/uio.h>

#include <memory>
#include <span>
#include <string>

namespace hora::tcp {

/// A connected stream socket to another rank, on which bytes travel as they are, or sealed in records:
///
///   length   4 bytes, little-endian: of the plain bytes in this record, 1 to kMostInRecord
///   bytes    encrypted, and their seal (kSealBytes), which covers the length, too
///
/// Nothing blocks. Moves. One thread at a time sends, and one receives.
class DataSocket {
 public:
  static constexpr std::size_t kMostInRecord = 64 * 1024;

  DataSocket();  ///< none
  explicit DataSocket(Descriptor socket);
  DataSocket(Descriptor socket, SessionKeys keys);
  DataSocket(DataSocket&&) noexcept;
  DataSocket& operator=(DataSocket&&) noexcept;
  DataSocket(const DataSocket&) = delete;
  DataSocket& operator=(const DataSocket&) = delete;
  ~DataSocket();

  [[nodiscard]] int fd() const { return socket_.fd(); }
  [[nodiscard]] explicit operator bool() const { return static_cast<bool>(socket_); }

  /// As sendmsg: how many bytes of the pieces have gone; -1 and errno if none. After EAGAIN the next call
  /// brings the same bytes, and may bring more: some may be on their way.
  ssize_t send(std::span<const iovec> pieces);
  /// As recvmsg: how many bytes have come into the pieces; 0 at the end; -1 and errno if none. Throws
  /// Error(internal) for what the other side has not sealed.
  ssize_t receive(std::span<const iovec> pieces);
  /// Whether `receive` has something that poll() does not know of.
  [[nodiscard]] bool holds_some() const;

 private:
  struct Records;
  Descriptor socket_;
  std::unique_ptr<Records> records_;  // none: as they are
};

/// Takes the socket of a new connection. `encryption`: as Config has it.
[[nodiscard]] DataSocket make_data_socket(Connection& connection, const std::string& encryption);

}  // namespace hora::tcp
