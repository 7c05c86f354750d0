// SPDX-License-Identifier: Apache-2.0
#include "core/backend/tcp/messages/incoming_connections.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace hora::tcp {

IncomingConnections::IncomingConnections(const World& world, const Config& config, Descriptor listener,
                                         MessageReceiver& receiver)
    : rank_(world.membership.rank),
      ranks_(world.membership.size),
      encryption_(config.encryption),
      time_to_connect_(config.start_timeout),
      acceptor_(std::move(listener), world.membership.secret, world.membership.rank),
      receiver_(receiver) {}

void IncomingConnections::append_to(std::vector<pollfd>& events) const {
  for (const auto& source : sources_) events.push_back({source.socket->fd(), POLLIN, 0});
  acceptor_.append_to(events);
}

TimePoint IncomingConnections::next() const {
  const bool more =
      std::any_of(sources_.begin(), sources_.end(), [](const auto& one) { return one.has_more; });
  return more ? TimePoint::min() : acceptor_.next();
}

void IncomingConnections::turn(std::span<const pollfd> events) {
  for (std::size_t i = 0; i < sources_.size(); ++i) {
    if (events[i].revents != 0 || sources_[i].has_more) read(sources_[i]);
  }
  std::erase_if(sources_, [](const Source& source) { return source.lost; });
  const TimePoint now = Clock::now();
  report_shortage(now);
  accept(now);
}

void IncomingConnections::read(Source& source) {
  try {
    source.has_more = false;
    for (int frames = 0; frames < kMostFrames; ++frames) {
      const auto received = source.reader.next(*source.socket);
      if (!received) {
        source.has_more = source.socket->holds_some();
        return;
      }
      receiver_.hear(source.rank, *received);
    }
    source.has_more = true;
  } catch (const Error& error) {
    source.lost = true;
    receiver_.lose(source.rank, error);
  }
}

void IncomingConnections::accept(TimePoint now) {
  for (auto& [connection, hello, member] : acceptor_.serve(now)) {
    const int from = hello.rank;
    if (hello.role != Role::message || hello.size != ranks_ || from == rank_) continue;
    DataSocket made = make_data_socket(connection, encryption_);
    DataSocket* socket = receiver_.add(from, std::move(made), std::move(connection.session.sends));
    if (socket == nullptr) continue;
    MessageReader reader(from,
                         [this, from](std::uint64_t number) { return receiver_.destination(from, number); });
    reader.open(std::move(connection.session.receives));
    sources_.push_back({from, std::move(reader), socket});
  }
}

void IncomingConnections::report_shortage(TimePoint now) {
  const auto& shortage = acceptor_.shortage();
  if (!shortage || now < std::max(shortage->since, told_of_shortage_) + time_to_connect_) return;
  told_of_shortage_ = now;
  receiver_.fail_unconnected(
      {Code::unavailable,
       fmt::format("rank {} could not accept connections of other ranks for {:g} s: {}; raise the limit, or "
                   "close files and sockets",
                   rank_, std::chrono::duration<double>(time_to_connect_).count(), shortage->why)});
}

}  // namespace hora::tcp
