// SPDX-License-Identifier: Apache-2.0
#include "core/backend/tcp/edges.h"

#include "core/backend/tcp/approach.h"
#include "core/backend/tcp/directory.h"
#include "core/backend/tcp/gaps.h"
#include "core/backend/tcp/lobby.h"
#include "core/comm/bell.h"

#include <algorithm>
#include <array>
#include <mutex>
#include <optional>

namespace hora {
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
      bell_.ring();
    });
  }
  ~LossWatch() { control_.on_loss({}); }
  LossWatch(const LossWatch&) = delete;
  LossWatch& operator=(const LossWatch&) = delete;

  [[nodiscard]] pollfd event() const { return bell_.event(); }
  /// Throws the loss, if there is one.
  void look() {
    bell_.silence();
    const std::lock_guard lock(mutex_);
    if (loss_) throw Error(*loss_);
  }

 private:
  Control& control_;
  Bell bell_;
  std::mutex mutex_;
  std::optional<Status> loss_;
};

bool has_edge(const std::vector<Edge>& edges, int rank) {
  return std::any_of(edges.begin(), edges.end(),
                     [rank](const Edge& edge) { return edge.member.rank == rank; });
}

}  // namespace

/// Children call their parents. Nobody waits in a ring: a call waits for the parent's side of this function,
/// which answers whatever else it waits for, and that is entered by all ranks. Being called needs no
/// deadline: a child that fails says so through control, and so does its death.
std::vector<Edge> connect_edges(Control& control, const std::vector<Member>& members, const Config& config,
                                TimePoint deadline) {
  Directory directory = tell_where(control, members, config, deadline);
  const TreeSeat& seat = control.seat();
  const int rank = control.rank();
  std::vector<Edge> edges;
  if (rank == 0) return edges;
  LossWatch losses(control);
  Lobby lobby(std::move(directory.listener), config.secret, rank);
  std::optional<Approach> parent;
  if (seat.parent != 0) {
    const Hello hello{Role::edge, rank, control.size(), seat.parent};
    parent.emplace(config.secret, hello, directory.places[static_cast<std::size_t>(seat.parent)],
                   Clock::now());
  }
  std::size_t absent = seat.children.size();
  const auto add = [&](int to, Connection connection) {
    edges.push_back({members[static_cast<std::size_t>(to)], std::move(connection)});
  };
  while (true) {
    const TimePoint now = Clock::now();
    losses.look();
    if (parent) {
      if (auto connection = parent->serve(now)) {
        add(seat.parent, *std::move(connection));
        parent.reset();
      } else if (parent->hopeless(now) || now >= deadline) {
        const Gap gap{members[static_cast<std::size_t>(rank)], members[static_cast<std::size_t>(seat.parent)],
                      parent->failures()};
        throw Error(describe_gaps(std::array{gap}));
      }
    }
    for (auto& [connection, hello, member] : lobby.serve(now)) {
      const bool child = hello.role == Role::edge && hello.size == control.size() &&
                         seat.child(hello.rank) >= 0 && !has_edge(edges, hello.rank);
      if (!child) continue;  // nobody of ours calls twice
      add(hello.rank, std::move(connection));
      --absent;
    }
    if (!parent && absent == 0) return edges;
    std::vector<pollfd> events{losses.event()};
    lobby.append_to(events);
    TimePoint until = lobby.next();
    if (parent) {
      parent->append_to(events);
      until = std::min({until, parent->next(), deadline});
    }
    ::poll(events.data(), events.size(), milliseconds_until(until));
  }
}

}  // namespace hora
