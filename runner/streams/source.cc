// SPDX-License-Identifier: Apache-2.0
#include "runner/streams/source.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace hora::hrun {
namespace {

constexpr std::size_t kUnknown = std::numeric_limits<std::size_t>::max();
constexpr std::size_t kMostOfTerminal = 1 << 20;  // where somebody writes on without a pause

}  // namespace

PipeSource::PipeSource(Descriptor pipe) : pipe_(std::move(pipe)) { ::fcntl(pipe_.fd(), F_SETFL, O_NONBLOCK); }

std::size_t PipeSource::read(std::span<char> into) {
  const auto got = ::read(pipe_.fd(), into.data(), std::min(into.size(), left_));
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return 0;
  const auto count = got > 0 ? static_cast<std::size_t>(got) : 0;
  if (left_ != kUnknown) left_ -= count;
  if (ends_at_pause_ && !await_events(pipe_.fd(), POLLIN, TimePoint::min())) left_ = 0;
  if (count == 0 || left_ == 0) pipe_ = Descriptor();
  return count;
}

void PipeSource::expect_no_more() {
  int held = 0;
  if (pipe_ && ::isatty(pipe_.fd()) == 1) {
    ends_at_pause_ = true;
    left_ = await_events(pipe_.fd(), POLLIN, TimePoint::min()) ? kMostOfTerminal : 0;
  } else if (pipe_ && ::ioctl(pipe_.fd(), FIONREAD, &held) == 0) {
    left_ = static_cast<std::size_t>(held);
  }
  if (left_ == 0) pipe_ = Descriptor();
}

std::size_t Inbox::read(std::span<char> into) {
  const std::size_t count = std::min(into.size(), bytes_.size());
  std::copy_n(bytes_.begin(), count, into.begin());
  bytes_.erase(0, count);
  credit_ += count;
  return count;
}

std::shared_ptr<OutputSource> no_output() {
  auto none = std::make_shared<Inbox>();
  none->end();
  return none;
}

}  // namespace hora::hrun
