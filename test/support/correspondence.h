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

/// A message of numbers that is being sent or received.
struct Transfer {
  Numbers values;
  Outcome outcome;
};
using PendingTransfer = std::shared_ptr<Transfer>;

inline PendingTransfer start_send(Messenger& from, int to, int tag, Numbers values) {
  auto transfer = std::make_shared<Transfer>();
  transfer->values = std::move(values);
  from.send({to, numbers(0, tag, transfer->values.size()), transfer->values.data(),
             [transfer](const Status& status) { transfer->outcome.set(status, nullptr); }});
  return transfer;
}

inline PendingTransfer start_receive(Messenger& at, int source, int tag) {
  auto transfer = std::make_shared<Transfer>();
  at.receive(
      {{source, tag},
       [transfer](const Envelope& found) {
         transfer->values.resize(static_cast<std::size_t>(found.shape.front()));
         return transfer->values.data();
       },
       [transfer](const Status& status, const Envelope* found) { transfer->outcome.set(status, found); }});
  return transfer;
}

inline Status send(Messenger& from, int to, int tag, Numbers values) {
  return start_send(from, to, tag, std::move(values))->outcome.wait();
}

inline Numbers receive(Messenger& at, int source, int tag) {
  const PendingTransfer transfer = start_receive(at, source, tag);
  const Status status = transfer->outcome.wait();
  if (!status.ok()) throw Error(status);
  return transfer->values;
}

}  // namespace hora
