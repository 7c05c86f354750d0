// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/comm/messenger.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <vector>

namespace hora {

/// The outcome of a message, which is told once.
class Outcome {
 public:
  void set(const Status& status, const Envelope* envelope) {
    const std::lock_guard lock(mutex_);
    EXPECT_FALSE(status_) << "told twice";
    status_ = status;
    if (envelope != nullptr) envelope_ = *envelope;
    told_.notify_all();
  }
  Status wait() {
    std::unique_lock lock(mutex_);
    told_.wait(lock, [this] { return status_.has_value(); });
    return *status_;
  }
  [[nodiscard]] bool told() {
    const std::lock_guard lock(mutex_);
    return status_.has_value();
  }
  /// The envelope of the message that arrived.
  [[nodiscard]] const std::optional<Envelope>& envelope() const { return envelope_; }

 private:
  std::mutex mutex_;
  std::condition_variable told_;
  std::optional<Status> status_;
  std::optional<Envelope> envelope_;
};

using Numbers = std::vector<std::int32_t>;

inline Numbers counting(std::size_t count, int first) {
  Numbers values(count);
  std::iota(values.begin(), values.end(), first);
  return values;
}

inline Envelope numbers(int source, int tag, std::size_t count) {
  return {source, tag, DType::int32, {static_cast<std::int64_t>(count)}};
}

/// Numbers that are being sent, or that come.
struct Letters {
  Numbers values;
  Outcome outcome;
};
using Mail = std::shared_ptr<Letters>;

inline Mail start_send(Messenger& from, int to, int tag, Numbers values) {
  auto mail = std::make_shared<Letters>();
  mail->values = std::move(values);
  from.send({to, numbers(0, tag, mail->values.size()), mail->values.data(),
             [mail](const Status& status) { mail->outcome.set(status, nullptr); }});
  return mail;
}

inline Mail start_receive(Messenger& at, int source, int tag) {
  auto mail = std::make_shared<Letters>();
  at.receive({source, tag,
              [mail](const Envelope& found) {
                mail->values.resize(static_cast<std::size_t>(found.shape.front()));
                return mail->values.data();
              },
              [mail](const Status& status, const Envelope* found) { mail->outcome.set(status, found); }});
  return mail;
}

inline Status send(Messenger& from, int to, int tag, Numbers values) {
  return start_send(from, to, tag, std::move(values))->outcome.wait();
}

inline Numbers receive(Messenger& at, int source, int tag) {
  const Mail mail = start_receive(at, source, tag);
  const Status status = mail->outcome.wait();
  if (!status.ok()) throw Error(status);
  return mail->values;
}

}  // namespace hora
