// SPDX-License-Identifier: Apache-2.0
#include "runner/streams/rank_inputs.h"

#include "runner/launch/agent_message.h"

#include <poll.h>

#include <algorithm>
#include <utility>

namespace hora::hrun {
namespace {

constexpr char kEndOfFile = '\x04';  // the key by which a user says so

}  // namespace

void RankInputs::add(Descriptor input) {
  const int fd = input.fd();
  readers_.push_back({std::move(input), is_master(fd), OutputSink(fd)});
}

std::size_t RankInputs::room() const {
  if (readers_.empty()) return 0;
  std::size_t most = 0;
  for (const auto& reader : readers_) most = std::max(most, reader.sink.size());
  return most < kWindow ? kWindow - most : 0;
}

void RankInputs::give(std::string_view bytes) {
  for (auto& reader : readers_) {
    reader.sink.add(bytes);
    if (!bytes.empty()) continue;
    reader.ending = true;
    if (reader.terminal) reader.sink.add({&kEndOfFile, 1});
  }
  move();
}

void RankInputs::resize(WindowSize size) {
  for (const auto& reader : readers_) {
    if (reader.terminal) hrun::resize(reader.sink.fd(), size);
  }
}

void RankInputs::watch(std::vector<pollfd>& events) const {
  for (const auto& reader : readers_) {
    if (!reader.sink.empty()) events.push_back({reader.sink.fd(), POLLOUT, 0});
  }
}

void RankInputs::move() {
  std::erase_if(readers_, [](Reader& reader) {
    const bool reads = reader.sink.flush() == 0;
    return !reads || (reader.ending && reader.sink.empty());
  });
}

}  // namespace hora::hrun
