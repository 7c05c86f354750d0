// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <hora/status.h>

namespace hora {

/// The code of operations and messages that end because their generation of the job has ended: by a lost
/// rank, or by ranks that leave. A value.
class EndCode {
 public:
  /// `goes_on`: the job can have another generation.
  explicit EndCode(bool goes_on = false) : goes_on_(goes_on) {}

  /// Whether the job can have another generation.
  [[nodiscard]] bool goes_on() const { return goes_on_; }
  /// generation_ended where the job goes on, else the cause's own.
  [[nodiscard]] Code of(Code cause) const { return goes_on_ ? Code::generation_ended : cause; }
  /// The same for a status that tells of the end by Code::aborted. Every other status stays as it is.
  [[nodiscard]] Status of(Status status) const {
    if (status.code == Code::aborted) status.code = of(status.code);
    return status;
  }

 private:
  bool goes_on_;
};

}  // namespace hora
