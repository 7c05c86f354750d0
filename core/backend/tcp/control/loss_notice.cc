// SPDX-License-Identifier: Apache-2.0
#include "core/backend/tcp/control/loss_notice.h"

#include <utility>

namespace hora::tcp {

void LossNotice::set(std::function<void(const Status&)> notice) {
  const std::lock_guard lock(mutex_);
  notice_ = std::move(notice);
  if (notice_ && loss_) notice_(*loss_);
}

void LossNotice::tell(const Status& loss) {
  const std::lock_guard lock(mutex_);
  loss_ = loss;
  if (notice_) notice_(loss);
}

}  // namespace hora::tcp
