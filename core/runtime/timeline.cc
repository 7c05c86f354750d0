// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/timeline.h"

#include <fmt/format.h>

#include <utility>

namespace hora {

void Timeline::start(const std::string& path, bool mark_cycles, const std::vector<Member>& members,
                     int rank) {
  const std::lock_guard lock(mutex_);
  if (job_ended_)
    throw Error(Code::aborted, fmt::format("cannot start the timeline {}: the job has ended", path));
  if (file_) {
    throw Error(Code::invalid_argument,
                fmt::format("cannot start the timeline {}: there is one under way; stop it first", path));
  }
  file_.emplace(path, members, rank);
  ended_.clear();
  command_ = mark_cycles ? TraceCommand::start_with_cycles : TraceCommand::start;
}

bool Timeline::stop() {
  const std::lock_guard lock(mutex_);
  if (!file_) return false;
  command_ = TraceCommand::stop;
  return true;
}

void Timeline::await_end() {
  std::unique_lock lock(mutex_);
  over_.wait(lock, [this] { return !file_; });
}

TraceCommand Timeline::take_command() {
  const std::lock_guard lock(mutex_);
  return std::exchange(command_, TraceCommand::none);
}

void Timeline::add(int rank, TracePart part) {
  const std::lock_guard lock(mutex_);
  if (!file_) return;
  if (part.last) ended_.insert(rank);
  file_->add(rank, std::move(part));
  if (static_cast<int>(ended_.size()) < ranks_) return;
  file_.reset();
  over_.notify_all();
}

void Timeline::finish() {
  const std::lock_guard lock(mutex_);
  job_ended_ = true;
  file_.reset();
  over_.notify_all();
}

}  // namespace hora
