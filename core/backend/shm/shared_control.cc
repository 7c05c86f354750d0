// SPDX-License-Identifier: Apache-2.0
#include "core/backend/shm/shared_control.h"

#include "core/backend/shm/control_queue.h"
#include "core/backend/shm/rank_block.h"
#include "core/comm/wake_up.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

namespace hora::shm {
namespace {

/// The messages between this rank and a neighbour.
class Neighbour {
 public:
  /// The queues lie in the block of the one that is not rank 0.
  Neighbour(int rank, RankBlock& queues, bool is_root, RankBlock& theirs)
      : rank_(rank),
        to_(is_root ? queues.to_root : queues.from_root),
        from_(is_root ? queues.from_root : queues.to_root),
        wake_up_(theirs.roll.wake_up) {}

  [[nodiscard]] int rank() const { return rank_; }

  void send(Control& base, std::span<const std::byte> bytes) {
    const std::uint64_t number = sent_++;
    if (to_.put(number, Clock::now(), bytes)) return wake_up_.ring();
    base.send(rank_, Writer().u64(number).raw(bytes).take());
  }

  /// A message that has come by the other way.
  void keep(ControlMessage message) {
    Reader in(message.bytes);
    const std::uint64_t number = in.u64();
    const auto rest = in.raw(in.left());
    early_.emplace(number, ControlMessage{rank_, {rest.begin(), rest.end()}, message.came});
  }

  /// The next message, if it has come.
  std::optional<ControlMessage> take() {
    if (from_.look() == taken_) {
      auto [number, sent, bytes] = from_.take();
      ++taken_;
      return ControlMessage{rank_, std::move(bytes), sent};
    }
    if (early_.empty() || early_.begin()->first != taken_) return std::nullopt;
    ++taken_;
    return std::move(early_.extract(early_.begin()).mapped());
  }

 private:
  int rank_;
  ControlQueue& to_;
  ControlQueue& from_;
  WakeUp wake_up_;
  std::uint64_t sent_ = 0;
  std::uint64_t taken_ = 0;
  std::map<std::uint64_t, ControlMessage> early_;  // those before them are still in the queue
};

class SharedControl final : public Control {
 public:
  SharedControl(std::unique_ptr<Control> base, std::shared_ptr<const Communicator> communicator)
      : communicator_(std::move(communicator)),
        wake_up_(communicator_->own_block().roll.wake_up),
        base_(std::move(base)) {
    const TreePosition& position = base_->position();
    if (base_->rank() == 0) {
      for (std::size_t child = 0; child < position.children.size(); ++child) {
        if (position.below(child).size() == 1) add(position.children[child]);
      }
    } else if (position.parent == 0 && position.children.empty()) {
      add(0);
    }
    base_->on_event([this] { wake_up_.ring(); });
  }

  [[nodiscard]] int rank() const override { return base_->rank(); }
  [[nodiscard]] int size() const override { return base_->size(); }
  [[nodiscard]] const TreePosition& position() const override { return base_->position(); }

  void send(int to, std::span<const std::byte> bytes) override {
    if (Neighbour* near = neighbour(to)) return near->send(*base_, bytes);
    base_->send(to, bytes);
  }

  void announce(const RankSet& to, std::span<const std::byte> bytes) override {
    for (auto& near : neighbours_) {
      if (to.contains(near.rank())) near.send(*base_, bytes);
    }
    if (const RankSet others = to.without(near_); !others.empty()) base_->announce(others, bytes);
  }

  std::optional<ControlEvent> receive(TimePoint deadline) override {
    while (true) {
      const std::uint32_t seen = wake_up_.rings();
      if (auto event = take()) return event;
      if (Clock::now() >= deadline) return std::nullopt;
      wake_up_.sleeps_for(Sleep::any_news);
      wake_up_.wait(seen, deadline);
      wake_up_.sleeps_for(Sleep::none);
    }
  }

  void on_event(std::function<void()> notice) override { base_->on_event(std::move(notice)); }
  void fail(const Status& why) override { base_->fail(why); }
  void call_off(const Status& why) override { base_->call_off(why); }
  void on_loss(std::function<void(const Status&)> notice) override { base_->on_loss(std::move(notice)); }

 private:
  void add(int rank) {
    const bool is_root = base_->rank() == 0;
    neighbours_.emplace_back(rank, is_root ? communicator_->block(rank) : communicator_->own_block(), is_root,
                             communicator_->block(rank));
    near_.add(RankSet(rank));
  }

  Neighbour* neighbour(int rank) {
    const auto at = std::lower_bound(neighbours_.begin(), neighbours_.end(), rank,
                                     [](const Neighbour& each, int wanted) { return each.rank() < wanted; });
    return at != neighbours_.end() && at->rank() == rank ? &*at : nullptr;
  }

  std::optional<ControlEvent> take() {
    if (auto message = take_queued()) return message;
    while (!lost_) {
      auto event = base_->receive(TimePoint::min());
      if (!event) break;
      if (std::holds_alternative<PeerLost>(*event)) {
        lost_ = std::move(event);
        break;
      }
      auto& message = std::get<ControlMessage>(*event);
      Neighbour* near = neighbour(message.from);
      if (near == nullptr) return event;
      near->keep(std::move(message));
    }
    // All that is in the queues by now was sent before what `base` reports.
    if (auto message = take_queued()) return message;
    return std::exchange(lost_, std::nullopt);
  }

  /// The next message of a neighbour. The search goes on where the last one has ended.
  std::optional<ControlEvent> take_queued() {
    for (std::size_t looked = 0; looked < neighbours_.size(); ++looked) {
      if (auto message = neighbours_[next_].take()) return message;
      next_ = (next_ + 1) % neighbours_.size();
    }
    return std::nullopt;
  }

  std::shared_ptr<const Communicator> communicator_;
  WakeUp wake_up_;
  std::unique_ptr<Control> base_;      // ends first: its threads ring the wake-up
  std::vector<Neighbour> neighbours_;  // ascending
  RankSet near_;                       // their ranks
  std::size_t next_ = 0;
  std::optional<ControlEvent> lost_;  // to be given after the messages that were sent before it
};

}  // namespace

std::unique_ptr<Control> make_shared_control(std::unique_ptr<Control> base,
                                             std::shared_ptr<const Communicator> communicator) {
  return std::make_unique<SharedControl>(std::move(base), std::move(communicator));
}

}  // namespace hora::shm
