// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

namespace hora {

/// Why something could not be done. A caller acts differently on each.
enum class Code : std::uint8_t {
  ok,
  invalid_argument,  ///< the caller's mistake; nothing was sent
  mismatch,          ///< the ranks disagree about one tensor; the job goes on with the next
  aborted,           ///< a rank, or the library, failed; this Runtime is finished
  timeout,           ///< a deadline passed
  unavailable,       ///< not built, not found, or not permitted on this machine
  internal,          ///< a bug in Hora
  rank_failed,       ///< a rank could not bring its tensor, and said why; the job goes on with the next
  generation_ended,  ///< a rank was lost, or the ranks change; the job goes on with other ranks
};
inline constexpr int kCodes = 9;

/// The outcome of an operation. A value: compared, stored, and sent to other ranks.
struct Status {
  Code code = Code::ok;
  std::string message;  ///< names the tensor, the ranks and the values; empty when ok

  [[nodiscard]] bool ok() const { return code == Code::ok; }
  bool operator==(const Status&) const = default;
};

/// The name of a code, as log lines and traces spell it: "mismatch".
[[nodiscard]] const char* name(Code code);

/// The exception that carries a Status. Everything that Hora throws is one.
class Error : public std::runtime_error {
 public:
  explicit Error(Status status) : std::runtime_error(status.message), status_(std::move(status)) {}
  Error(Code code, std::string message) : Error(Status{code, std::move(message)}) {}

  [[nodiscard]] const Status& status() const { return status_; }
  [[nodiscard]] Code code() const { return status_.code; }

 private:
  Status status_;
};

}  // namespace hora
