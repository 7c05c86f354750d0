// SPDX-License-Identifier: Apache-2.0
#include <hora/completion_queue.h>

#include "core/base/event_fd.h"
#include "core/base/owner_process.h"
#include "core/runtime/handle.h"

#include <algorithm>
#include <deque>
#include <mutex>

namespace hora {

struct CompletionQueue::State {
  const OwnerProcess owner;
  const EventFd event;
  std::mutex mutex;
  std::deque<std::uint64_t> ended;  // under the mutex

  void add(std::uint64_t token) {
    {
      const std::lock_guard lock(mutex);
      ended.push_back(token);
    }
    event.ring();
  }
};

CompletionQueue::CompletionQueue() : state_(std::make_shared<State>()) {}
CompletionQueue::~CompletionQueue() = default;

void CompletionQueue::watch(const Handle& handle, std::uint64_t token) {
  state_->owner.check();
  handle.state_->on_end([queue = std::weak_ptr<State>(state_), token] {
    if (const auto state = queue.lock()) state->add(token);
  });
}

int CompletionQueue::fd() const { return state_->event.event().fd; }

std::vector<std::uint64_t> CompletionQueue::take(std::size_t most) {
  state_->owner.check();
  state_->event.silence();
  const std::lock_guard lock(state_->mutex);
  std::deque<std::uint64_t>& ended = state_->ended;
  const auto last = ended.begin() + static_cast<std::ptrdiff_t>(std::min(most, ended.size()));
  std::vector<std::uint64_t> taken(ended.begin(), last);
  ended.erase(ended.begin(), last);
  if (!ended.empty()) state_->event.ring();
  return taken;
}

}  // namespace hora
