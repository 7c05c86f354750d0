// SPDX-License-Identifier: Apache-2.0
#include "core/backend/tcp/messages/message_sender.h"

#include <algorithm>
#include <utility>

namespace hora::tcp {

MessageSender::MessageSender(const World& world, const Config& config,
                             std::vector<std::vector<Address>> places, const EventFd& wake_up)
    : encryption_(config.encryption),
      wake_up_(wake_up),
      dialer_(world, config, std::move(places)),
      leavers_(world.membership.rank, world.membership.size) {}

void MessageSender::send(Outgoing message) {
  Calls calls;
  {
    const std::lock_guard lock(mutex_);
    if (aborted_) throw Error(*aborted_);
    if (leaves_) throw Error(kHasLeft);
    Peer& peer = peers_.try_emplace(message.to, message.to).first->second;
    if (const auto lost = loss(peer, message.to)) {
      calls.emplace_back([done = std::move(message.done), why = *lost] { done(why); });
    } else {
      peer.channel.send(std::move(message), calls);
      if (peer.channel.has_more()) wake_up_.ring();
    }
  }
  run(calls);
}

/// The reason why nothing more can be sent to `rank`; nothing if it can.
std::optional<Status> MessageSender::loss(const Peer& peer, int rank) const {
  if (auto left = leavers_.loss(rank)) return left;
  if (peer.loss && peer.loss->told) return peer.loss->why;
  return std::nullopt;
}

void MessageSender::leave(const std::shared_ptr<void>& told) {
  Calls calls;
  {
    const std::lock_guard lock(mutex_);
    leaves_ = true;
    if (aborted_) return;
    for (auto& [rank, peer] : peers_) {
      if (!peer.loss) peer.channel.say_last(told, calls);
    }
  }
  wake_up_.ring();
  run(calls);
}

void MessageSender::hear_leave(int rank) {
  Calls calls;
  {
    const std::lock_guard lock(mutex_);
    if (aborted_) return;
    leavers_.add(rank);
    const auto peer = peers_.find(rank);
    if (peer != peers_.end()) peer->second.channel.take_back(*leavers_.loss(rank), calls);
  }
  run(calls);
}

void MessageSender::abort(const Status& why) noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (!aborted_) aborted_ = why;
  }
  wake_up_.ring();
}

void MessageSender::append_to(std::vector<pollfd>& events) const {
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [rank, peer] : peers_) {
      if (peer.connected()) events.push_back(peer.channel.event());
    }
  }
  dialer_.append_to(events);
}

TimePoint MessageSender::next() const {
  TimePoint soonest = dialer_.next();
  const std::lock_guard lock(mutex_);
  for (const auto& [rank, peer] : peers_) {
    if (peer.loss) soonest = std::min(soonest, peer.loss->due());
  }
  return soonest;
}

bool MessageSender::turn(TimePoint now) {
  Calls calls;
  std::unique_lock lock(mutex_);
  const bool going = !aborted_;
  going ? exchange(now, calls) : end(calls);
  lock.unlock();
  run(calls);
  if (going) dial();
  return going;
}

void MessageSender::exchange(TimePoint now, Calls& calls) {
  for (auto& [rank, peer] : peers_) {
    try {
      if (peer.connected()) peer.channel.turn(calls);
    } catch (const Error& error) {
      peer.loss.emplace(rank, error);
      peer.channel.shut_down();
    }
    if (!peer.loss || now < peer.loss->due()) continue;
    peer.loss->told = true;
    peer.channel.fail(peer.loss->why, calls);
  }
}

void MessageSender::end(Calls& calls) {
  for (auto& [rank, peer] : peers_) {
    peer.channel.fail(*aborted_, calls);
    peer.channel.shut_down();
  }
}

/// Opens the connections that channels need.
void MessageSender::dial() {
  {
    const std::lock_guard lock(mutex_);
    for (auto& [rank, peer] : peers_) {
      if (!peer.channel.is_open() && peer.channel.has_more()) dialer_.want(rank);
    }
  }
  Calls calls;
  for (auto& [rank, connection, failed] : dialer_.serve(Clock::now())) {
    const std::lock_guard lock(mutex_);
    SendChannel& channel = peers_.at(rank).channel;
    if (connection) {
      DataSocket socket = make_data_socket(*connection, encryption_);
      channel.open(std::move(socket), std::move(connection->session), calls);
    } else {
      channel.fail(failed, calls);
    }
  }
  run(calls);
}

}  // namespace hora::tcp
