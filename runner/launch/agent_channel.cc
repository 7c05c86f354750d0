// SPDX-License-Identifier: Apache-2.0
#include "runner/launch/agent_channel.h"

#include <unistd.h>

#include <array>
#include <cerrno>

namespace hora::hrun {
namespace {

constexpr int kMostReads = 8;  // at a time, so that one host does not keep the others waiting

}  // namespace

void AgentChannel::watch(std::vector<pollfd>& events) const {
  if (!closed_) events.push_back({in_, POLLIN, 0});
  if (!sink_.empty()) events.push_back({sink_.fd(), POLLOUT, 0});
}

void AgentChannel::read(TimePoint now) {
  std::array<std::byte, 64 * 1024> buffer;
  for (int i = 0; i < kMostReads && !closed_ && await_events(in_, POLLIN, TimePoint::min()); ++i) {
    const auto got = ::read(in_, buffer.data(), buffer.size());
    if (got > 0) {
      heard_ = now;
      reader_.feed(std::span(buffer).first(static_cast<std::size_t>(got)));
    } else {
      closed_ = got == 0 || (errno != EAGAIN && errno != EINTR);
    }
  }
}

void AgentChannel::send_line(std::string_view line) {
  sink_.add(line);
  sink_.add("\n");
}

void AgentChannel::send(Word word, std::span<const std::byte> body) {
  sink_.add(text_of(encode(word, body)));
}

}  // namespace hora::hrun
