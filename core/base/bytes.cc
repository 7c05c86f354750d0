// SPDX-License-Identifier: Apache-2.0
#include "core/base/bytes.h"

#include <fmt/format.h>

#include <bit>

namespace hora {

Writer& Writer::u8(std::uint8_t value) {
  bytes_.push_back(std::byte{value});
  return *this;
}

Writer& Writer::u64(std::uint64_t value) {
  while (value >= 0x80) {
    bytes_.push_back(static_cast<std::byte>(value | 0x80));
    value >>= 7;
  }
  return u8(static_cast<std::uint8_t>(value));
}

Writer& Writer::i64(std::int64_t value) {
  const auto bits = static_cast<std::uint64_t>(value);
  return u64((bits << 1) ^ (value < 0 ? ~std::uint64_t{0} : 0));
}

Writer& Writer::f64(double value) {
  const auto bits = std::bit_cast<std::uint64_t>(value);
  for (int shift = 0; shift < 64; shift += 8) u8(static_cast<std::uint8_t>(bits >> shift));
  return *this;
}

Writer& Writer::string(std::string_view value) {
  u64(value.size());
  return raw(std::as_bytes(std::span(value)));
}

Writer& Writer::raw(std::span<const std::byte> value) {
  bytes_.insert(bytes_.end(), value.begin(), value.end());
  return *this;
}

void Reader::fail(const std::string& expected) const {
  throw Error(Code::internal,
              fmt::format("bad message: expected {} at byte {} of {}", expected, at_, bytes_.size()));
}

std::uint8_t Reader::u8() {
  if (left() == 0) fail("one more byte");
  return static_cast<std::uint8_t>(bytes_[at_++]);
}

std::uint64_t Reader::u64() {
  std::uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    const std::uint8_t byte = u8();
    if (shift == 63 && byte > 1) fail("a number of at most 64 bits");
    value |= static_cast<std::uint64_t>(byte & 0x7F) << shift;
    if (byte < 0x80) return value;
  }
  fail("a number of at most 10 bytes");
}

std::int64_t Reader::i64() {
  const std::uint64_t value = u64();
  return static_cast<std::int64_t>((value >> 1) ^ (~(value & 1) + 1));
}

double Reader::f64() {
  std::uint64_t bits = 0;
  for (int shift = 0; shift < 64; shift += 8) bits |= static_cast<std::uint64_t>(u8()) << shift;
  return std::bit_cast<double>(bits);
}

bool Reader::boolean() { return below(2, "a boolean") == 1; }

std::string Reader::string(std::size_t most) {
  const std::uint64_t length = u64();
  if (length > most) fail(fmt::format("a text of at most {} bytes, not {}", most, length));
  const auto bytes = raw(length);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::span<const std::byte> Reader::raw(std::size_t length) {
  if (length > left()) fail(fmt::format("{} more bytes", length));
  const auto bytes = bytes_.subspan(at_, length);
  at_ += length;
  return bytes;
}

std::uint64_t Reader::below(std::uint64_t bound, const char* what) {
  const std::uint64_t value = u64();
  if (value >= bound) fail(fmt::format("{} below {}, not {}", what, bound, value));
  return value;
}

std::size_t Reader::count(std::size_t each, const char* what) {
  const std::uint64_t value = u64();
  if (value > left() / each) fail(fmt::format("at most {} {}, not {}", left() / each, what, value));
  return value;
}

void Reader::finish() const {
  if (left() != 0) fail("the end");
}

}  // namespace hora
