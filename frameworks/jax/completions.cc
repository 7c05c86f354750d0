// SPDX-License-Identifier: Apache-2.0
#include "frameworks/jax/completions.h"

#include <poll.h>

#include <cerrno>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <utility>

namespace hora::jax {
namespace {

constexpr int kThreadsThatStay = 2;

}  // namespace

Outcome finish(const std::vector<hora_handle*>& handles) {
  Outcome outcome;
  for (hora_handle* handle : handles) {
    const int code = hora_wait(handle);
    if (code != HORA_OK && outcome.code == HORA_OK) outcome = {code, hora_last_error()};
    hora_release(handle);
  }
  return outcome;
}

Completions& Completions::of_process() {
  static Completions& one = *new Completions;
  return one;
}

Completions::Completions() {
  if (hora_completion_queue_make(&queue_) != HORA_OK) throw std::runtime_error(hora_last_error());
  const std::lock_guard lock(mutex_);
  while (threads_that_wait_ < kThreadsThatStay) start_thread_locked();
}

void Completions::start_thread_locked() {
  std::thread([this] { run(); }).detach();
  ++threads_that_wait_;
}

void Completions::watch(std::vector<hora_handle*> handles, std::function<void(const Outcome&)> done) {
  const std::vector<hora_handle*> watched = handles;
  std::uint64_t token = 0;
  {
    const std::lock_guard lock(mutex_);
    token = next_++;
    const std::size_t count = handles.size();
    groups_.emplace(token, Group{std::move(handles), count, std::move(done)});
  }
  for (hora_handle* handle : watched) {
    if (hora_completion_queue_watch(queue_, handle, token) == HORA_OK) continue;
    hora_wait(handle);  // there was no memory: the end is told late, but it is
    if (const auto group = ended(token)) group->done(finish(group->handles));
  }
}

std::size_t Completions::waiting() {
  const std::lock_guard lock(mutex_);
  return groups_.size();
}

void Completions::run() {
  pollfd readable{hora_completion_queue_fd(queue_), POLLIN, 0};
  while (true) {
    std::uint64_t token = 0;
    while (hora_completion_queue_take(queue_, &token, 1) == 1) {
      const auto group = ended(token);
      if (!group) continue;
      {
        const std::lock_guard lock(mutex_);
        if (--threads_that_wait_ == 0) start_thread_locked();
      }
      group->done(finish(group->handles));
      if (!may_stay()) return;
    }
    if (::poll(&readable, 1, -1) < 0 && errno != EINTR)
      throw std::system_error(errno, std::generic_category(), "poll");
  }
}

/// Whether the thread that calls it is to wait again.
bool Completions::may_stay() {
  const std::lock_guard lock(mutex_);
  if (threads_that_wait_ >= kThreadsThatStay) return false;
  ++threads_that_wait_;
  return true;
}

/// The group that has ended with this token, if it has.
std::optional<Completions::Group> Completions::ended(std::uint64_t token) {
  const std::lock_guard lock(mutex_);
  const auto found = groups_.find(token);
  if (--found->second.under_way > 0) return {};
  std::optional<Group> group(std::move(found->second));
  groups_.erase(found);
  return group;
}

}  // namespace hora::jax
