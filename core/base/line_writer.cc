// SPDX-License-Identifier: Apache-2.0
#include "core/base/line_writer.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <csignal>
#include <system_error>
#include <thread>
#include <utility>

namespace hora {
namespace {

constexpr std::size_t kPiece = PIPE_BUF;  // so that lines of several processes do not mix

/// Also if writing would fail, or if poll() itself does, as it may where `ulimit -n` is low.
bool is_writable(int fd, int milliseconds) {
  pollfd asked{fd, POLLOUT, 0};
  return ::poll(&asked, 1, milliseconds) != 0;
}

/// How many bytes it took; all of them if it takes none any more.
std::size_t write_piece(int fd, const std::string& piece) {
  while (true) {
    const auto written = ::write(fd, piece.data(), piece.size());
    if (written >= 0) return static_cast<std::size_t>(written);
    if (errno == EAGAIN) {
      is_writable(fd, -1);
    } else if (errno != EINTR) {
      return piece.size();
    }
  }
}

}  // namespace

void LineWriter::write(std::string line) {
  const std::lock_guard lock(mutex_);
  push(std::move(line));
  if (has_thread_) return;
  write_what_fits();
  if (!waiting_.empty()) start_thread();
}

void LineWriter::push(std::string line) {
  if (bytes_ + line.size() > kMostBytes) {
    ++dropped_;
    return;
  }
  if (dropped_ > 0) {
    line.insert(0,
                fmt::format("hora: {} lines were dropped: nobody read stderr\n", std::exchange(dropped_, 0)));
  }
  bytes_ += line.size();
  waiting_.push_back(std::move(line));
}

void LineWriter::write_what_fits() {
  while (!waiting_.empty() && is_writable(fd_, 0)) remove(write_piece(fd_, next_piece()));
}

std::string LineWriter::next_piece() const { return waiting_.front().substr(0, kPiece); }

void LineWriter::remove(std::size_t bytes) {
  bytes_ -= bytes;
  waiting_.front().erase(0, bytes);
  if (waiting_.front().empty()) waiting_.pop_front();
}

/// Without memory for a thread, the next line tries again.
void LineWriter::start_thread() {
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);  // handlers of the program run on its own threads
  try {
    std::thread([this] { write_all(); }).detach();
    has_thread_ = true;
  } catch (const std::system_error&) {
    has_thread_ = false;
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void LineWriter::write_all() {
  std::unique_lock lock(mutex_);
  while (!waiting_.empty()) {
    const std::string piece = next_piece();
    lock.unlock();
    const auto written = write_piece(fd_, piece);
    lock.lock();
    remove(written);
  }
  has_thread_ = false;
  empty_.notify_all();
}

bool LineWriter::flush(std::chrono::milliseconds longest) {
  std::unique_lock lock(mutex_);
  return empty_.wait_for(lock, longest, [this] { return !has_thread_; });
}

void LineWriter::after_fork(bool in_child) {
  if (in_child) {
    waiting_.clear();
    bytes_ = dropped_ = 0;
    has_thread_ = false;
  }
  mutex_.unlock();
}

}  // namespace hora
