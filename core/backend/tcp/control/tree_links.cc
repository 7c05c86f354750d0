// SPDX-License-Identifier: Apache-2.0
#include "core/backend/tcp/control/tree_links.h"

#include "core/base/event_fd.h"
#include "core/comm/unreachable_pairs.h"
#include "core/join/acceptor.h"
#include "core/join/address_book.h"
#include "core/join/connector.h"

#include <algorithm>
#include <array>
#include <mutex>
#include <optional>

namespace hora::tcp {
namespace {

/// Hears of losses, as long as it is there.
class LossWatch {
 public:
  explicit LossWatch(Control& control) : control_(control) {
    control_.on_loss([this](const Status& why) {
      {
        const std::lock_guard lock(mutex_);
        if (!loss_) loss_ = why;
      }
      event_fd_.ring();
    });
  }
  ~LossWatch() { control_.on_loss({}); }
  LossWatch(const LossWatch&) = delete;
  LossWatch& operator=(const LossWatch&) = delete;

  [[nodiscard]] pollfd event() const { return event_fd_.event(); }
  /// Throws the loss, if there is one.
  void look() {
    event_fd_.silence();
    const std::lock_guard lock(mutex_);
    if (loss_) throw Error(*loss_);
  }

 private:
  Control& control_;
  EventFd event_fd_;
  std::mutex mutex_;
  std::optional<Status> loss_;
};

/// The search for all tree links of one rank.
class TreeLinkSearch {
 public:
  TreeLinkSearch(const World& world, AddressBook address_book, TimePoint end,
                 const std::function<void(TreeLink)>& found)
      : membership_(world.membership),
        members_(world.members),
        position_(world.control->position()),
        rank_(world.control->rank()),
        size_(world.control->size()),
        end_(end),
        found_(found),
        losses_(*world.control),
        acceptor_(std::move(address_book.listener), world.membership.secret, world.control->rank()),
        absent_(position_.children) {
    if (position_.parent == 0) return;
    const Hello hello{Role::tree_link, rank_, size_, position_.parent};
    const auto& addresses = address_book.addresses[static_cast<std::size_t>(position_.parent)];
    parent_.emplace(world.membership.secret, hello, addresses, Clock::now());
  }

  void run() {
    while (true) {
      const TimePoint now = Clock::now();
      losses_.look();
      call_parent(now);
      let_in_children(now);
      if (!parent_ && absent_.empty()) return;
      wait();
    }
  }

 private:
  void call_parent(TimePoint now) {
    if (!parent_) return;
    if (auto connection = parent_->serve(now)) {
      parent_.reset();
      return found_({member(position_.parent), *std::move(connection)});
    }
    if (!parent_->hopeless(now) && !is_cut_off(membership_, *parent_) && now < end_) return;
    throw UnreachableError(describe_unreachable(std::array{UnreachablePair{
                               member(rank_), member(position_.parent), parent_->failures()}}),
                           {position_.parent});
  }

  void let_in_children(TimePoint now) {
    for (auto& [connection, hello, from] : acceptor_.serve(now)) {
      if (hello.role != Role::tree_link || hello.size != size_) continue;
      if (std::erase(absent_, hello.rank) == 1) found_({member(hello.rank), std::move(connection)});
    }
  }

  void wait() const {
    std::vector<pollfd> events{losses_.event()};
    acceptor_.append_to(events);
    TimePoint until = acceptor_.next();
    if (parent_) {
      parent_->append_to(events);
      until = std::min({until, parent_->next(), end_});
    }
    ::poll(events.data(), events.size(), milliseconds_until(until));
  }

  [[nodiscard]] const Member& member(int rank) const { return members_[static_cast<std::size_t>(rank)]; }

  const Membership& membership_;
  const std::vector<Member>& members_;
  const TreePosition& position_;
  const int rank_;
  const int size_;
  const TimePoint end_;
  const std::function<void(TreeLink)>& found_;
  LossWatch losses_;
  Acceptor acceptor_;
  std::vector<int> absent_;  // children
  std::optional<Connector> parent_;
};

}  // namespace

/// Children call their parents. Nobody waits in a ring: a call waits for the parent's side of this function,
/// which answers whatever else it waits for, and which all ranks enter. Being called needs no deadline: a
/// child that fails says so through control, and so does its death. A caller gives up long before those who
/// wait for it elsewhere do, so that all hear of the unreachable pair, and not that somebody is missing.
void connect_tree_links(const World& world, const Config& config, TimePoint deadline,
                        const std::function<void(TreeLink)>& found) {
  AddressBook address_book = tell_where(world, config, deadline);
  if (world.control->rank() == 0) return;
  const TimePoint now = Clock::now();
  TreeLinkSearch(world, std::move(address_book), now + (deadline - now) / 2, found).run();
}

}  // namespace hora::tcp
