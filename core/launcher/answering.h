// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/event_fd.h"
#include "core/launcher/question.h"

#include <functional>
#include <optional>
#include <thread>

namespace hora {

/// As long as one lives, what the launcher asks this rank is answered, on a thread of its own: also while the
/// engine or the user's threads stand still. The launcher is told when that begins and ends.
class Answering {
 public:
  /// Borrows the socket, which no program that this one starts inherits from now on; see
  /// core/launcher/question.h. None: there is nobody who asks, and this does nothing. `answer` runs on the
  /// thread.
  Answering(std::optional<int> socket, std::function<Reply(const Question&)> answer);
  /// Waits for an answer that is being given.
  ~Answering();
  Answering(const Answering&) = delete;
  Answering& operator=(const Answering&) = delete;

 private:
  void listen();
  bool take_question();

  const int socket_;
  const std::function<Reply(const Question&)> answer_;
  const EventFd ending_;
  std::thread thread_;
};

}  // namespace hora
