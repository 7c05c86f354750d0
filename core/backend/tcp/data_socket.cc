// SPDX-License-Identifier: Apache-2.0
#include "core/backend/tcp/data_socket.h"

#include "core/base/bytes.h"
#include "core/join/address.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

namespace hora::tcp {
namespace {

constexpr std::size_t kLength = 4;
constexpr std::size_t kLongestRecord = kLength + DataSocket::kMostInRecord + kSealBytes;
constexpr std::size_t kRoom = 4 * kLongestRecord;  // what is read in one call

std::array<std::byte, kLength> encode_length(std::size_t length) {
  std::array<std::byte, kLength> bytes{};
  for (std::size_t i = 0; i < kLength; ++i) bytes[i] = static_cast<std::byte>(length >> (8 * i));
  return bytes;
}

std::size_t decode_length(std::span<const std::byte> bytes) {
  std::size_t length = 0;
  for (std::size_t i = 0; i < kLength; ++i) length |= static_cast<std::size_t>(bytes[i]) << (8 * i);
  if (length == 0 || length > DataSocket::kMostInRecord)
    throw Error(Code::internal, fmt::format("no record has a length of {}", length));
  return length;
}

std::span<std::byte> span_of(const iovec& piece) {
  return {static_cast<std::byte*>(piece.iov_base), piece.iov_len};
}

}  // namespace

struct DataSocket::Records {
  explicit Records(SessionKeys session)
      : keys(std::move(session)), incoming(kRoom), outgoing(kLongestRecord) {}

  SessionKeys keys;

  // The bytes read: records that are not open, from `begin` to `end`, and before that the rest of the last
  // one that is.
  Bytes incoming;
  std::size_t begin = 0;
  std::size_t end = 0;
  std::span<const std::byte> opened;

  // The record that is on its way.
  Bytes outgoing;
  std::size_t plain = 0;   ///< bytes in it
  std::size_t length = 0;  ///< of the record; 0: there is none
  std::size_t sent = 0;

  [[nodiscard]] bool has_whole_record() const {
    const std::span<const std::byte> here = std::span(incoming).subspan(begin, end - begin);
    return here.size() >= kLength && here.size() >= kLength + decode_length(here) + kSealBytes;
  }

  /// Seals as much of the pieces as a record holds.
  void fill(std::span<const iovec> pieces) {
    const std::span<std::byte> room = std::span(outgoing).subspan(kLength, kMostInRecord);
    plain = 0;
    for (const auto& piece : pieces) {
      const auto part = span_of(piece).first(std::min(piece.iov_len, room.size() - plain));
      std::copy(part.begin(), part.end(), room.begin() + static_cast<std::ptrdiff_t>(plain));
      plain += part.size();
    }
    if (plain == 0) return;
    const auto head = encode_length(plain);
    std::copy(head.begin(), head.end(), outgoing.begin());
    keys.sends.seal(room.first(plain), std::span(outgoing).subspan(kLength), head);
    length = kLength + plain + kSealBytes;
    sent = 0;
  }

  /// Opens the next record, into `wanted` if it has room for all of it. How much is there.
  std::size_t open(std::span<std::byte> wanted) {
    const std::span<std::byte> record = std::span(incoming).subspan(begin);
    const std::size_t bytes = decode_length(record);
    const auto sealed = record.subspan(kLength, bytes + kSealBytes);
    const bool fits = bytes <= wanted.size();
    keys.receives.open(sealed, fits ? wanted.first(bytes) : sealed.first(bytes), record.first(kLength));
    if (!fits) opened = sealed.first(bytes);
    begin += kLength + bytes + kSealBytes;
    return fits ? bytes : 0;
  }

  /// Takes the bytes that were opened before, as many as there is room for.
  std::size_t take_opened(std::span<std::byte> wanted) {
    const auto part = opened.first(std::min(opened.size(), wanted.size()));
    std::copy(part.begin(), part.end(), wanted.begin());
    opened = opened.subspan(part.size());
    return part.size();
  }

  /// Reads what has come; as recv. Only when nothing opened is left.
  ssize_t read(int fd) {
    if (begin > 0) {
      std::memmove(incoming.data(), incoming.data() + begin, end - begin);
      end -= begin;
      begin = 0;
    }
    const auto got = ::recv(fd, incoming.data() + end, incoming.size() - end, MSG_DONTWAIT);
    if (got > 0) end += static_cast<std::size_t>(got);
    return got;
  }
};

DataSocket::DataSocket() = default;
DataSocket::DataSocket(Descriptor socket) : socket_(std::move(socket)) {}
DataSocket::DataSocket(Descriptor socket, SessionKeys keys)
    : socket_(std::move(socket)), records_(std::make_unique<Records>(std::move(keys))) {}
DataSocket::DataSocket(DataSocket&&) noexcept = default;
DataSocket& DataSocket::operator=(DataSocket&&) noexcept = default;
DataSocket::~DataSocket() = default;

ssize_t DataSocket::send(std::span<const iovec> pieces) {
  if (!records_) {
    msghdr call{};
    call.msg_iov = const_cast<iovec*>(pieces.data());
    call.msg_iovlen = pieces.size();
    return ::sendmsg(fd(), &call, MSG_DONTWAIT | MSG_NOSIGNAL);
  }
  Records& records = *records_;
  if (records.length == 0) records.fill(pieces);
  while (records.sent < records.length) {
    const auto sent = ::send(fd(), records.outgoing.data() + records.sent, records.length - records.sent,
                             MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0) return -1;
    records.sent += static_cast<std::size_t>(sent);
  }
  records.length = 0;
  return static_cast<ssize_t>(records.plain);
}

ssize_t DataSocket::receive(std::span<const iovec> pieces) {
  if (!records_) {
    msghdr call{};
    call.msg_iov = const_cast<iovec*>(pieces.data());
    call.msg_iovlen = pieces.size();
    return ::recvmsg(fd(), &call, MSG_DONTWAIT);
  }
  Records& records = *records_;
  ssize_t all = 0;
  for (const auto& piece : pieces) {
    for (auto wanted = span_of(piece); !wanted.empty();) {
      std::size_t come = records.take_opened(wanted);
      while (come == 0 && records.opened.empty()) {
        if (records.has_whole_record()) {
          come = records.open(wanted);
          continue;
        }
        if (all > 0) return all;
        const auto got = records.read(fd());
        if (got <= 0) return got;
      }
      wanted = wanted.subspan(come);
      all += static_cast<ssize_t>(come);
    }
  }
  return all;
}

bool DataSocket::holds_some() const {
  return records_ && (!records_->opened.empty() || records_->has_whole_record());
}

DataSocket make_data_socket(Connection& connection, const std::string& encryption) {
  prepare_data_socket(connection.socket.fd());
  if (encryption == "all") return {std::move(connection.socket), connection.session.derived()};
  return DataSocket(std::move(connection.socket));
}

}  // namespace hora::tcp
