// SPDX-License-Identifier: Apache-2.0
#include "core/backend/local/message_boxes.h"

namespace hora::local {

void MessageBoxes::throw_if_closed(int rank) {
  Box& own = box(rank);
  const std::lock_guard lock(own.mutex);
  if (own.why) throw Error(*own.why);
}

MessageBoxes::Put MessageBoxes::put(int to, const Envelope& envelope, Parcel& parcel, bool keep) {
  Box& there = box(to);
  const std::lock_guard lock(there.mutex);
  if (box(envelope.source).closed.load(std::memory_order_acquire)) return {Where::closed, {}};
  if (auto wanted = there.matching.claim(envelope)) return {Where::claimed, std::move(wanted)};
  if (!keep) return {Where::not_kept, {}};
  there.matching.keep(envelope, std::move(parcel));
  return {Where::kept, {}};
}

void MessageBoxes::send(const Outgoing& message) {
  const Envelope& envelope = message.envelope;
  const std::size_t bytes = content_bytes(envelope);
  Box& own = box(envelope.source);
  if (own.leaves.load(std::memory_order_acquire)) throw Error(kHasLeft);
  throw_if_closed(envelope.source);
  if (const auto lost = loss(envelope.source, message.to)) return message.done(*lost);
  const bool copied = bytes <= kMostUnasked || message.to == envelope.source;
  Parcel parcel{message.data, {}, message.done};
  Put result = put(message.to, envelope, parcel, !copied);
  if (result.where == Where::not_kept) {
    parcel.copy = copy_of(message.data, bytes);
    parcel.elements = parcel.copy.get();
    parcel.sent = {};
    result = put(message.to, envelope, parcel, true);
  }
  if (result.where == Where::closed) throw_if_closed(envelope.source);
  if (result.where == Where::claimed) deliver(*result.wanted, envelope, message.data);
  if (copied || result.where == Where::claimed) return message.done({});
  if (const auto lost = loss(envelope.source, message.to)) {
    Calls calls;
    take_back(envelope.source, *lost, calls, message.to);
    run(calls);
  }
}

void MessageBoxes::receive(int rank, Incoming waiting) {
  std::optional<Matching<Parcel>::Kept> found;
  std::optional<Status> lost;
  {
    Box& own = box(rank);
    const std::lock_guard lock(own.mutex);
    if (own.why) throw Error(*own.why);
    found = own.matching.take(waiting.wanted);
    if (!found) lost = own.leavers.loss(waiting.wanted);
    if (!found && !lost) return own.matching.wait(std::move(waiting));
  }
  if (lost) return waiting.done(*lost, nullptr);
  deliver(waiting, found->envelope, found->arrival.elements);
  if (found->arrival.sent) found->arrival.sent({});
}

std::optional<Envelope> MessageBoxes::probe(int rank, const Wanted& wanted) {
  Box& own = box(rank);
  const std::lock_guard lock(own.mutex);
  if (own.why) throw Error(*own.why);
  const Envelope* found = own.matching.probe(wanted);
  if (found != nullptr) return *found;
  if (const auto lost = own.leavers.loss(wanted.source)) throw Error(*lost);
  return std::nullopt;
}

void MessageBoxes::leave(int rank) { box(rank).leaves.store(true, std::memory_order_release); }

void MessageBoxes::hear_leave(int rank, int leaver) {
  Calls calls;
  Status why;
  {
    Box& own = box(rank);
    const std::lock_guard lock(own.mutex);
    own.leavers.add(leaver);
    why = *own.leavers.loss(leaver);
    own.leavers.fail_lost(own.matching, calls);
  }
  take_back(rank, why, calls, leaver);
  run(calls);
}

void MessageBoxes::close(int rank, const Status& why) {
  Calls calls;
  {
    Box& own = box(rank);
    const std::lock_guard lock(own.mutex);
    if (own.why) return;
    own.why = why;
    own.closed.store(true, std::memory_order_release);
    fail(own.matching.give_up(any_receive), why, calls);
  }
  take_back(rank, why, calls, std::nullopt);
  run(calls);
}

std::optional<Status> MessageBoxes::loss(int rank, int to) {
  Box& own = box(rank);
  const std::lock_guard lock(own.mutex);
  return own.leavers.loss(to);
}

void MessageBoxes::take_back(int rank, const Status& why, Calls& calls, std::optional<int> only) {
  const auto is_lent = [rank](const auto& kept) { return kept.envelope.source == rank && kept.arrival.sent; };
  for (std::size_t at = 0; at < boxes_.size(); ++at) {
    if (only && at != static_cast<std::size_t>(*only)) continue;
    Box& other = boxes_[at];
    const std::lock_guard lock(other.mutex);
    for (auto& kept : other.matching.give_back(is_lent))
      calls.emplace_back([sent = std::move(kept.arrival.sent), why] { sent(why); });
  }
}

namespace {

class LocalMessenger final : public Messenger {
 public:
  LocalMessenger(std::shared_ptr<MessageBoxes> boxes, int rank) : boxes_(std::move(boxes)), rank_(rank) {}
  ~LocalMessenger() override { boxes_->close(rank_, {Code::aborted, "the job has ended"}); }
  LocalMessenger(const LocalMessenger&) = delete;
  LocalMessenger& operator=(const LocalMessenger&) = delete;

  void send(Outgoing message) override {
    message.envelope.source = rank_;
    boxes_->send(message);
  }
  void receive(Incoming waiting) override { boxes_->receive(rank_, std::move(waiting)); }
  std::optional<Envelope> probe(const Wanted& wanted) override { return boxes_->probe(rank_, wanted); }
  void leave(std::function<void()> done) override {
    boxes_->leave(rank_);
    done();
  }
  void hear_leave(int rank) override { boxes_->hear_leave(rank_, rank); }
  void abort(const Status& why) noexcept override { boxes_->close(rank_, why); }

 private:
  std::shared_ptr<MessageBoxes> boxes_;
  int rank_;
};

}  // namespace

std::unique_ptr<Messenger> make_local_messenger(std::shared_ptr<MessageBoxes> boxes, int rank) {
  return std::make_unique<LocalMessenger>(std::move(boxes), rank);
}

}  // namespace hora::local
