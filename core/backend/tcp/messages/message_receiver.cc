// SPDX-License-Identifier: Apache-2.0
#include "core/backend/tcp/messages/message_receiver.h"

#include <algorithm>
#include <utility>

namespace hora::tcp {

void MessageReceiver::receive(Incoming waiting) {
  std::optional<Matching<Arrival>::Kept> found;
  Calls calls;
  {
    const std::lock_guard lock(mutex_);
    throw_if_aborted();
    found = matching_.take(waiting.wanted);
    if (!found) {
      const auto lost = loss(waiting.wanted);
      if (!lost) return matching_.wait(std::move(waiting));
      calls.emplace_back([&, why = *lost] { waiting.done(why, nullptr); });
    } else if (found->arrival.announced == 0) {
      give_credit(found->envelope, calls);
      calls.emplace_back([&] { deliver(waiting, found->envelope, found->arrival.elements.get()); });
    } else {
      calls.emplace_back([&] { request(found->envelope, found->arrival.announced, std::move(waiting)); });
    }
  }
  run(calls);
}

std::optional<Envelope> MessageReceiver::probe(const Wanted& wanted) const {
  const std::lock_guard lock(mutex_);
  throw_if_aborted();
  const Envelope* found = matching_.probe(wanted);
  if (found != nullptr) return *found;
  if (const auto lost = leavers_.loss(wanted.source)) throw Error(*lost);
  return std::nullopt;
}

void MessageReceiver::send_to_self(const Outgoing& message) {
  const Envelope& envelope = message.envelope;
  auto wanted = claim_own(envelope, nullptr);
  if (!wanted) wanted = claim_own(envelope, copy_of(message.data, content_bytes(envelope)));
  if (wanted) deliver(*wanted, envelope, message.data);
  message.done({});
}

/// Returns the receive that waits for a message of this rank. If none waits, keeps `copy`, unless that is
/// null.
std::optional<Incoming> MessageReceiver::claim_own(const Envelope& envelope,
                                                   std::shared_ptr<std::byte> copy) {
  const std::lock_guard lock(mutex_);
  throw_if_aborted();
  if (leaves_) throw Error(kHasLeft);
  auto wanted = matching_.claim(envelope);
  if (!wanted && copy) matching_.keep(envelope, {0, std::move(copy)});
  return wanted;
}

void MessageReceiver::leave(const std::shared_ptr<void>& told) {
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

void MessageReceiver::hear_leave(int rank) {
  Calls calls;
  {
    const std::lock_guard lock(mutex_);
    if (aborted_) return;
    leavers_.add(rank);
    leavers_.fail_lost(matching_, calls);
  }
  run(calls);
}

void MessageReceiver::abort(const Status& why) noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (!aborted_) aborted_ = why;
  }
  wake_up_.ring();
}

/// Asks for the elements of an announced message, once there is memory for them.
void MessageReceiver::request(const Envelope& envelope, std::uint64_t number, Incoming wanted) {
  std::byte* memory = nullptr;
  Status failed;
  try {
    memory = static_cast<std::byte*>(wanted.memory_for(envelope));
  } catch (const Error& error) {
    failed = error.status();
  }
  Calls calls;
  {
    const std::lock_guard lock(mutex_);
    ReceiveChannel& channel = peers_.at(envelope.source).channel;
    const auto lost = aborted_ ? aborted_ : broken(envelope.source);
    if (!failed.ok() && !lost) channel.refuse(number, calls);
    if (failed.ok() && lost) failed = *lost;
    if (failed.ok()) {
      channel.request(number, {envelope, memory, std::move(wanted)}, calls);
    } else {
      calls.emplace_back([&, failed] { wanted.done(failed, &envelope); });
    }
    if (channel.has_more()) wake_up_.ring();
  }
  run(calls);
}

DataSocket* MessageReceiver::add(int from, DataSocket socket, Cipher cipher) {
  const std::lock_guard lock(mutex_);
  if (peers_.contains(from)) return nullptr;
  return &peers_.try_emplace(from, std::move(socket), std::move(cipher)).first->second.channel.socket();
}

void MessageReceiver::hear(int from, const MessageReader::Received& received) {
  const auto& [frame, elements] = received;
  if (frame.kind == MessageFrameKind::whole) return hear_whole(from, frame.envelope, elements);
  std::optional<Incoming> wanted;
  Calls calls;
  {
    const std::lock_guard lock(mutex_);
    ReceiveChannel& channel = peers_.at(from).channel;
    if (frame.kind == MessageFrameKind::announcement) {
      channel.hear_announcement(frame.number);
      wanted = matching_.claim(frame.envelope);
      if (!wanted) matching_.keep(frame.envelope, {frame.number, {}});
    } else {
      channel.hear(frame, calls);
    }
  }
  run(calls);
  if (wanted) request(frame.envelope, frame.number, *std::move(wanted));
}

void MessageReceiver::hear_whole(int from, const Envelope& envelope, std::span<const std::byte> elements) {
  std::optional<Incoming> wanted;
  Calls calls;
  {
    const std::lock_guard lock(mutex_);
    ReceiveChannel& channel = peers_.at(from).channel;
    channel.hear_whole(elements.size());
    wanted = matching_.claim(envelope);
    if (wanted) {
      channel.give_credit(elements.size(), calls);
    } else {
      matching_.keep(envelope, {0, copy_of(elements.data(), elements.size())});
    }
  }
  run(calls);
  if (wanted) deliver(*wanted, envelope, elements.data());
}

std::span<std::byte> MessageReceiver::destination(int from, std::uint64_t number) const {
  const std::lock_guard lock(mutex_);
  return peers_.at(from).channel.destination(number);
}

void MessageReceiver::lose(int from, const Error& error) {
  const std::lock_guard lock(mutex_);
  Peer& peer = peers_.at(from);
  peer.loss.emplace(from, error);
  peer.channel.shut_down();
}

void MessageReceiver::fail_unconnected(const Status& why) {
  Calls calls;
  {
    const std::lock_guard lock(mutex_);
    const auto is_lost = [this](const Incoming& waiting) { return is_unconnected(waiting.wanted); };
    fail(matching_.give_up(is_lost), why, calls);
  }
  run(calls);
}

/// Whether such a message may come from a rank that has not connected.
bool MessageReceiver::is_unconnected(const Wanted& wanted) const {
  const auto is_apart = [this](int rank) { return rank != rank_ && !peers_.contains(rank); };
  if (wanted.source != kAnySource) return is_apart(wanted.source);
  if (wanted.members.empty()) return peers_.size() + 1 < static_cast<std::size_t>(ranks_);
  return std::any_of(wanted.members.begin(), wanted.members.end(), is_apart);
}

void MessageReceiver::append_to(std::vector<pollfd>& events) const {
  const std::lock_guard lock(mutex_);
  for (const auto& [rank, peer] : peers_) {
    if (!peer.loss && peer.channel.has_more()) events.push_back(peer.channel.event());
  }
}

TimePoint MessageReceiver::next() const {
  TimePoint soonest = TimePoint::max();
  const std::lock_guard lock(mutex_);
  for (const auto& [rank, peer] : peers_) {
    if (peer.loss) soonest = std::min(soonest, peer.loss->due());
  }
  return soonest;
}

bool MessageReceiver::turn(TimePoint now) {
  Calls calls;
  std::unique_lock lock(mutex_);
  const bool going = !aborted_;
  going ? flush(now, calls) : end(calls);
  lock.unlock();
  run(calls);
  return going;
}

void MessageReceiver::flush(TimePoint now, Calls& calls) {
  for (auto& [rank, peer] : peers_) {
    if (!peer.loss) {
      peer.channel.flush(calls);
    } else if (now >= peer.loss->due()) {
      peer.loss->told = true;
      peer.channel.fail(peer.loss->why, calls);
      fail(matching_.give_up(wants_from(rank)), peer.loss->why, calls);
    }
  }
}

void MessageReceiver::end(Calls& calls) {
  for (auto& [rank, peer] : peers_) {
    peer.channel.fail(*aborted_, calls);
    peer.channel.shut_down();
  }
  fail(matching_.give_up(any_receive), *aborted_, calls);
}

/// The reason why no such message can come any more; nothing if one can.
std::optional<Status> MessageReceiver::loss(const Wanted& wanted) const {
  const auto left = leavers_.loss(wanted);
  return left ? left : broken(wanted.source);
}

/// The reason why nothing more can be asked for at `source`; nothing if it can. A rank that has left still
/// sends the messages that it has announced.
std::optional<Status> MessageReceiver::broken(int source) const {
  const auto peer = peers_.find(source);
  if (peer == peers_.end() || !peer->second.loss || !peer->second.loss->told) return std::nullopt;
  return peer->second.loss->why;
}

void MessageReceiver::give_credit(const Envelope& envelope, Calls& calls) {
  if (envelope.source == rank_) return;
  ReceiveChannel& channel = peers_.at(envelope.source).channel;
  channel.give_credit(content_bytes(envelope), calls);
  if (channel.has_more()) wake_up_.ring();
}

}  // namespace hora::tcp
