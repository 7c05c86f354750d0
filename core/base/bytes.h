// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <hora/status.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hora {

using Bytes = std::vector<std::byte>;

/// Appends values to a message: little-endian, unsigned integers in LEB128 (7 bits a byte). A value.
class Writer {
 public:
  Writer& u8(std::uint8_t value);
  Writer& u64(std::uint64_t value);  ///< 1 to 10 bytes
  Writer& i64(std::int64_t value);   ///< zigzag, 1 to 10 bytes
  Writer& f64(double value);         ///< 8 bytes
  Writer& string(std::string_view value);
  Writer& raw(std::span<const std::byte> value);  ///< without a length

  [[nodiscard]] Bytes take() { return std::move(bytes_); }
  [[nodiscard]] std::size_t size() const { return bytes_.size(); }

 private:
  Bytes bytes_;
};

/// Takes values off a message that came from outside. Every length, count and enumerator is checked: a value
/// that does not fit throws Error(internal) that says what was expected where. A value; refers to the bytes.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  std::uint8_t u8();
  std::uint64_t u64();
  std::int64_t i64();
  double f64();
  bool boolean();
  std::string string(std::size_t most);
  std::span<const std::byte> raw(std::size_t length);

  /// A number below `bound`.
  std::uint64_t below(std::uint64_t bound, const char* what);
  /// A number of elements of at least `each` bytes, which the rest of the message must be able to hold.
  std::size_t count(std::size_t each, const char* what);
  /// An enumerator below `bound`.
  template <typename Enum>
  Enum enumerator(int bound, const char* what) {
    return static_cast<Enum>(below(static_cast<std::uint64_t>(bound), what));
  }

  [[nodiscard]] std::size_t left() const { return bytes_.size() - at_; }
  /// Throws unless everything was read.
  void finish() const;

 private:
  [[noreturn]] void fail(const std::string& expected) const;
  std::span<const std::byte> bytes_;
  std::size_t at_ = 0;
};

}  // namespace hora
