// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/join/handshake.h"

#include <sys/types.h>
#include <sys/uio.h>

#include <memory>
#include <span>
#include <string>

namespace hora::tcp {

/// A connected stream socket to another rank. With keys (HORA_ENCRYPTION=all) it encrypts what it sends, in
/// records; without, bytes travel as they are. A record:
///
///   length   4 bytes, little-endian: the number of plain bytes in it, 1 to kMostInRecord
///   bytes    encrypted, and their seal (kSealBytes), which covers the length, too
///
/// Nothing blocks. Movable. One thread at a time may send, and one may receive.
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

  /// As sendmsg: returns how many bytes of the pieces have been sent, or -1 with errno. After -1 and EAGAIN
  /// the next call must begin with the same bytes: a part of their record may have been sent. It may add
  /// further bytes.
  ssize_t send(std::span<const iovec> pieces);
  /// As recvmsg: returns how many bytes have been written to the pieces; 0 if the other end has closed the
  /// connection; -1 with errno. Throws Error(internal) for a record that the other end has not sealed.
  ssize_t receive(std::span<const iovec> pieces);
  /// Whether `receive` would return bytes that were already read from the socket, so that poll() does not
  /// report them.
  [[nodiscard]] bool holds_some() const;

 private:
  struct Records;
  Descriptor socket_;
  std::unique_ptr<Records> records_;  // none: as they are
};

/// Takes the socket of a new connection, and sets its options for data. `encryption`: Config::encryption;
/// "all" makes it encrypt, with keys derived from those of the connection.
[[nodiscard]] DataSocket make_data_socket(Connection& connection, const std::string& encryption);

}  // namespace hora::tcp
