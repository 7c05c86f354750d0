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
  /// Another rank is lost: a notice that is set from now on runs at once. Once, and before anybody else can
  /// know of the loss.
  void record(const Status& loss);
  /// Runs the notice that is set, unless it has run when it was set. After `record`.
  void tell();

 private:
  void run();  // under the mutex

  std::mutex mutex_;
  std::function<void(const Status&)> notice_;
  std::optional<Status> loss_;
  bool told_ = false;  // the present notice
};

}  // namespace hora::tcp
