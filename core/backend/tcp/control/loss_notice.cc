// SPDX-License-Identifier: Apache-2.0
#include "core/backend/tcp/control/loss_notice.h"

#include <utility>

namespace hora::tcp {

void LossNotice::set(std::function<void(const Status&)> notice) {
  const std::lock_guard lock(mutex_);
  notice_ = std::move(notice);
  told_ = false;
  run();
}

void LossNotice::record(const Status& loss) {
  const std::lock_guard lock(mutex_);
  loss_ = loss;
}

void LossNotice::tell() {
  const std::lock_guard lock(mutex_);
  run();
}

void LossNotice::run() {
  if (!notice_ || !loss_ || told_) return;
  told_ = true;
  notice_(*loss_);
}

}  // namespace hora::tcp
