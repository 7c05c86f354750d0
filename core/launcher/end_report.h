// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/bytes.h"

#include <span>
#include <string>

namespace hora {

inline constexpr std::size_t kMostErrorBytes = 32 * 1024;
inline constexpr std::size_t kMostWhereBytes = 4 * 1024;
inline constexpr std::size_t kMostTraceBytes = 64 * 1024;

/// Why a rank ends, as it tells its launcher (ReplyKind::ends): see hora/end_report.h. A value.
struct EndReport {
  std::string error;
  std::string where;
  std::string trace;

  bool operator==(const EndReport&) const = default;
};

/// Why a rank has given the job up, and the path of its last operations (ReplyKind::gave_up). A value.
struct GaveUp {
  std::string why;
  std::string dump;

  bool operator==(const GaveUp&) const = default;
};

/// To bytes and back. Encoding shortens long texts, but for a trace: one that is too long is left out.
/// Decoding throws Error(internal) for what no rank would send.
[[nodiscard]] Bytes encode(const EndReport& report);
[[nodiscard]] EndReport decode_end_report(std::span<const std::byte> bytes);
[[nodiscard]] Bytes encode(const GaveUp& report);
[[nodiscard]] GaveUp decode_gave_up(std::span<const std::byte> bytes);

}  // namespace hora
