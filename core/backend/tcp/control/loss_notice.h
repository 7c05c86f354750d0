// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <hora/status.h>

#include <functional>
#include <mutex>
#include <optional>

namespace hora::tcp {

/// Tells a loss to whoever wants to know at once (Control::on_loss), whichever of the two comes first. The
/// mutex is held while the notice runs, and taken before control's. Thread-safe.
class LossNotice {
 public:
  /// As Control::on_loss.
  void set(std::function<void(const Status&)> notice);
  /// Another rank is lost. Once.
  void tell(const Status& loss);

 private:
  std::mutex mutex_;
  std::function<void(const Status&)> notice_;
  std::optional<Status> loss_;
};

}  // namespace hora::tcp
