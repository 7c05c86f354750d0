// SPDX-License-Identifier: Apache-2.0
#include "core/backend/tcp/control/letter_box.h"

#include <utility>

namespace hora::tcp {

void LetterBox::put(Letter letter) {
  {
    const std::lock_guard lock(mutex_);
    letters_.push_back(std::move(letter));
  }
  arrival_.notify_one();
  const std::lock_guard lock(notice_mutex_);
  if (notice_) notice_();
}

std::optional<Letter> LetterBox::receive(TimePoint deadline) {
  std::unique_lock lock(mutex_);
  const auto news = [this] { return !letters_.empty(); };
  if (deadline == TimePoint::max()) {
    arrival_.wait(lock, news);
  } else if (deadline > TimePoint::min()) {
    arrival_.wait_until(lock, deadline, news);
  }
  if (letters_.empty()) return std::nullopt;
  Letter letter = std::move(letters_.front());
  letters_.pop_front();
  return letter;
}

void LetterBox::on_letter(std::function<void()> notice) {
  const std::lock_guard lock(notice_mutex_);
  notice_ = std::move(notice);
}

}  // namespace hora::tcp
