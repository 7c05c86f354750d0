// SPDX-License-Identifier: Apache-2.0
#include "runner/streams/output_sink.h"

#include "runner/streams/terminal.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <utility>

namespace hora::hrun {
namespace {

constexpr std::size_t kFull = 64 * 1024;

Descriptor open_again(int fd) {
  if (is_master(fd)) return {};  // opened again it would be another terminal
  struct stat found{};
  if (::fstat(fd, &found) != 0 || !(S_ISFIFO(found.st_mode) || ::isatty(fd) == 1)) return {};
  const std::string path = fmt::format("/proc/self/fd/{}", fd);
  return Descriptor(::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
}

/// At most PIPE_BUF bytes, which a pipe takes as one, and whole lines if they fit: then no other program that
/// writes there tears them apart.
std::string_view next_piece(std::string_view bytes) {
  if (bytes.size() <= PIPE_BUF) return bytes;
  const std::string_view piece = bytes.substr(0, PIPE_BUF);
  const auto end = piece.rfind('\n');
  return end == std::string_view::npos ? piece : piece.substr(0, end + 1);
}

}  // namespace

OutputSink::OutputSink(int fd) : fd_(fd), own_(open_again(fd)) {}

bool OutputSink::full() const { return pending_.size() >= kFull; }

std::size_t OutputSink::discard() { return std::exchange(pending_, {}).size(); }

int OutputSink::flush() {
  std::string_view left = pending_;
  int trouble = 0;
  while (!left.empty() && trouble == 0 && await_events(fd(), POLLOUT, TimePoint::min())) {
    const std::string_view piece = next_piece(left);
    const auto written = ::write(fd(), piece.data(), piece.size());
    if (written > 0) left.remove_prefix(static_cast<std::size_t>(written));
    if (written == 0 || (written < 0 && errno == EAGAIN)) break;  // another program was faster
    if (written < 0 && errno != EINTR) trouble = errno;
  }
  pending_.erase(0, trouble != 0 ? std::string::npos : pending_.size() - left.size());
  return trouble;
}

}  // namespace hora::hrun
