// SPDX-License-Identifier: Apache-2.0
#include "core/backend/tcp/control/tcp_control.h"

#include "core/backend/tcp/control/deferred_leave.h"
#include "core/backend/tcp/control/heartbeat.h"
#include "core/backend/tcp/control/inbox.h"
#include "core/backend/tcp/control/loss_notice.h"
#include "core/backend/tcp/control/loss_policy.h"
#include "core/backend/tcp/control/peers.h"
#include "core/backend/tcp/control/tree_growth.h"
#include "core/backend/tcp/control/tree_links.h"
#include "core/base/thread.h"
#include "core/comm/unreachable_pairs.h"
#include "core/join/rendezvous.h"
#include "core/launcher/news.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <thread>
#include <utility>

namespace hora::tcp {
namespace {

constexpr std::chrono::seconds kLeaveTimeout{1};

/// Control over TCP: a star, in which every rank has one connection to rank 0. With a tree (TreePosition) it
/// has tree links beside the star, between all other parents and children. Losses, and the messages of ranks
/// to rank 0 alone, go over the star. Messages to parents go up the tree, and the announcements of rank 0 go
/// down it. The I/O thread hands an announcement on first: this rank may leave as soon as it has it, and its
/// leave must not overtake what others have still to get. Then it puts the announcement into the inbox.
/// Messages that ranks below send because of it come after it, as the same thread reads them. Until all its
/// tree links are there (`grow`) a rank keeps what it has to hand on.
///
/// Threads. One I/O thread waits in poll() for sockets, for the processes of ranks on this machine, and for
/// `event_fd_`; it alone reads sockets, and uses the members that say so. The engine and user threads queue
/// bytes under `mutex_`. `send` writes at once when nothing is queued, which saves a hand-over, else leaves
/// it to the I/O thread. `mutex_` is never held while foreign code runs, such as the notices of events and
/// losses. The I/O thread waits nowhere else than in poll(), so it beats whatever the engine and the user do.
///
/// A rank is lost when its connection or its process ends without a leave, when it is silent (Heartbeat),
/// or when it says that it fails. The LossPolicy decides which loss counts, and when. Rank 0's I/O thread
/// passes the loss on to all others, whatever its engine does. The first loss becomes one PeerLost on each
/// survivor. The destructor sends a leave, after the engines have agreed that the job has ended. So a
/// leave that arrives while a thread still waits for events means that its sender gave up. It becomes a
/// PeerLost, too, but no notice: this rank may just be finishing its last collective.
class TcpControl final : public Control {
 public:
  TcpControl(const Membership& membership, const Config& config, RendezvousResult result)
      : rank_(membership.rank),
        size_(membership.size),
        position_(position_in_tree(membership.rank, membership.size, result.peer_list.radix)),
        self_(describe(result.peer_list.members[static_cast<std::size_t>(membership.rank)])),
        heartbeat_(config.heartbeat_timeout, Clock::now()),
        news_(std::move(result.news)),
        acceptor_(std::move(result.acceptor)) {
    const TimePoint now = Clock::now();
    const auto& members = result.peer_list.members;
    const Member& self = members[static_cast<std::size_t>(rank_)];
    for (std::size_t rank = 0; rank < result.peers.size(); ++rank) {
      if (result.peers[rank]) peers_.add(members[rank], *std::move(result.peers[rank]), self, now);
    }
    io_ = start_thread("hears the other ranks", [this] { run(); });
  }

  // The messages sent here are far below the size of a frame at which queue() throws.
  // NOLINTNEXTLINE(bugprone-exception-escape)
  ~TcpControl() override {
    {
      const std::lock_guard lock(mutex_);
      closing_ = true;
      const RankSet others(1, size_);
      if (rank_ == 0 && growth_.is_finished() && !failed_) peers_.hand_on(others, encode(others, {}));
      if (!failed_) peers_.send_leave();  // a rank that has failed has said so
    }
    event_fd_.ring();
    io_.join();
  }
  TcpControl(const TcpControl&) = delete;
  TcpControl& operator=(const TcpControl&) = delete;

  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return size_; }
  [[nodiscard]] const TreePosition& position() const override { return position_; }

  void send(int to, std::span<const std::byte> bytes) override {
    const std::lock_guard lock(mutex_);
    peers_.tell(to, FrameKind::message, bytes);
  }

  void announce(const RankSet& to, std::span<const std::byte> bytes) override {
    const std::lock_guard lock(mutex_);
    if (growth_.is_finished()) return peers_.hand_on(to, encode(to, bytes));
    peers_.tell_directly(to, bytes);
  }

  /// One of the tree links of this rank is there; it beats from now on.
  void add(TreeLink tree_link) {
    const std::lock_guard lock(mutex_);
    growth_.add(std::move(tree_link));
    event_fd_.ring();
  }

  /// All are: what is announced goes down the tree. Waits until the I/O thread has taken them, for a moment.
  void grow() {
    std::unique_lock lock(mutex_);
    growth_.await_taken(lock);
    for (const auto& [to, announcement] : growth_.finish()) peers_.hand_on(to, announcement);
  }

  std::optional<ControlEvent> receive(TimePoint deadline) override { return inbox_.receive(deadline); }
  void on_event(std::function<void()> notice) override { inbox_.on_event(std::move(notice)); }
  void on_loss(std::function<void(const Status&)> notice) override { loss_notice_.set(std::move(notice)); }

  void fail(const Status& why) override {
    const std::lock_guard lock(mutex_);
    if (lost_) return;
    failed_ = true;
    lost_ = true;  // whatever breaks from now on follows from this
    const Status told = names_unreachable(why) || why.code == Code::generation_ended
                            ? why
                            : Status{Code::aborted, fmt::format("{} failed: {}", self_, why.message)};
    const Bytes loss = encode(Loss{rank_, told});
    peers_.tell_star(rank_ == 0 ? FrameKind::loss : FrameKind::failure, loss);
  }

  void call_off(const Status& why) override {
    const Loss loss{kNobody, why};
    if (rank_ == 0) return lose(loss);
    const std::lock_guard lock(mutex_);
    peers_.tell_star(FrameKind::failure, encode(loss));
  }

 private:
  // All that follows is for the I/O thread.

  void run() {
    TimePoint leave_deadline = TimePoint::max();
    while (true) {
      wait(leave_deadline);
      event_fd_.silence();
      news_.read();
      take_tree_links();
      for (auto& peer : peers_) serve(peer);
      beat(Clock::now());
      look_at_losses();
      // Ranks that are early for the next rendezvous know the secret, too; they are sent away, and try again.
      if (acceptor_) acceptor_->serve(Clock::now());
      if (leave_deadline == TimePoint::max() && is_closing()) leave_deadline = Clock::now() + kLeaveTimeout;
      if (leave_deadline != TimePoint::max() && (may_go() || Clock::now() >= leave_deadline)) return;
    }
  }

  void wait(TimePoint leave_deadline) {
    std::vector<pollfd> events{event_fd_.event()};
    TimePoint until = std::min({leave_deadline, heartbeat_.next(), policy_.until()});
    {
      const std::lock_guard lock(mutex_);
      until = std::min(until, peers_.watch(events, policy_.awaited_process(), heartbeat_));
    }
    news_.watch(events);
    if (acceptor_) {
      acceptor_->append_to(events);
      until = std::min(until, acceptor_->next());
    }
    ::poll(events.data(), events.size(), milliseconds_until(until));
  }

  void take_tree_links() {
    const std::lock_guard lock(mutex_);
    for (auto& link : growth_.take())
      peers_.add(std::move(link.member), std::move(link.connection), Clock::now());
  }

  void serve(Peer& peer) {
    if (peer.socket() < 0) return;
    const bool process_ended = peer.process_has_ended();
    // First: what it said before it ended counts.
    std::string how = peer.read([&](Frame frame) { take(peer, std::move(frame)); });
    if (how.empty() && process_ended) how = "its process ended";
    if (!how.empty()) return end(peer, how);
    const std::lock_guard lock(mutex_);
    peer.flush();
    // The rest of a graceful leave is to read until the other end has ended, too.
    if (closing_ && peer.is_open() && !peer.has_unsent()) peer.end_writing();
  }

  void take(Peer& peer, Frame frame) {
    switch (frame.kind) {
      case FrameKind::message:
        if (frame.bytes.empty()) throw Error(Code::internal, "an empty message");
        return inbox_.put(ControlMessage{peer.member().rank, std::move(frame.bytes), peer.heard()});
      case FrameKind::announcement: return hear_announcement(peer, std::move(frame.bytes));
      case FrameKind::leave: return hear_leave(peer);
      case FrameKind::beat: return;
      case FrameKind::failure:
      case FrameKind::loss:
        if (!peer.is_tree_link()) return hear_of(decode_loss(frame.bytes, size_), peer);
        [[fallthrough]];
      default: throw Error(Code::internal, "a frame out of place");
    }
  }

  void hear_announcement(const Peer& from, Bytes contents) {
    if (rank_ == 0 || from.member().rank != position_.parent)
      throw Error(Code::internal, "an announcement that does not come down the tree");
    auto [to, message] = decode_announcement(contents, size_);
    const bool last = message.empty();
    const bool own = !last && to.contains(rank_);
    {
      const std::lock_guard lock(mutex_);
      if (growth_.is_finished()) {
        peers_.hand_on(to, contents);
      } else {
        growth_.keep({std::move(to), std::move(contents)});
      }
    }
    if (own) inbox_.put(ControlMessage{0, std::move(message), from.heard()});
    if (last) end_announcements();
  }

  void hear_leave(Peer& peer) {
    peer.set_left();
    if (peer.is_tree_link()) {
      if (peer.member().rank == position_.parent) end_announcements();
      return;
    }
    PeerLost left{peer.member().rank,
                  {Code::aborted, fmt::format("{} has left the job", describe(peer.member()))}};
    if (position_.parent == 0) return inbox_.put(std::move(left));
    if (auto due = deferred_leave_.hear_leave(std::move(left))) inbox_.put(*std::move(due));
  }

  /// The parent has no more of rank 0's to hand on.
  void end_announcements() {
    if (auto leave = deferred_leave_.end_announcements()) inbox_.put(*std::move(leave));
  }

  [[nodiscard]] LossPolicy::Now now() { return {Clock::now(), is_closing(), news_.open()}; }

  void hear_of(const Loss& loss, const Peer& teller) {
    if (const auto due = policy_.hear(loss, teller.watched(), rank_ == 0, now())) lose(*due);
  }

  void close(Peer& peer) {
    const std::lock_guard lock(mutex_);
    peer.close();
  }

  /// The connection to a rank of the star, or a link of the tree, has ended.
  void end(Peer& peer, const std::string& how) {
    close(peer);
    if (peer.is_tree_link()) return end_tree_link(peer, how);
    if (peer.has_left() && !policy_.holds_back()) return;
    if (const auto due = policy_.end(peer.watched(), how, now())) lose(*due);
  }

  void end_tree_link(const Peer& link, const std::string& how) {
    if (link.has_left()) return;
    const Status why{Code::aborted,
                     fmt::format("{} and {} have lost the connection over which ranks agree: {}", self_,
                                 describe(link.member()), how)};
    if (link.member().rank == position_.parent) {
      deferred_leave_.explain(why);  // rank 0 tells nothing any more
      end_announcements();
    }
    if (!is_closing()) policy_.end_tree_link(why, Clock::now());
  }

  /// A silent rank does not end, so there is no news of that to wait for.
  void give_up(Peer& peer) {
    close(peer);
    if (peer.is_tree_link())
      return end_tree_link(
          peer, heartbeat_.describe_silence("one of them was stopped, or the network between is down"));
    if (policy_.holds_back() || peer.has_left()) return;
    const std::string how =
        heartbeat_.describe_silence("it is stopped, or its host or the network between is down");
    lose({peer.member().rank, {Code::aborted, fmt::format("{} is gone: {}", describe(peer.member()), how)}});
  }

  void look_at_losses() {
    const bool process_ended = peers_.process_has_ended(policy_.awaited_process());
    if (const auto due = policy_.look(process_ended, news_.end_of(policy_.awaited()), now())) lose(*due);
    if (const auto why = policy_.take_broken_link(Clock::now())) call_off(*why);
  }

  void beat(TimePoint now) {
    const bool stopped = heartbeat_.turn(now);
    for (auto& peer : peers_) {
      if (stopped) peer.set_heard(now);
      if (peer.socket() >= 0 && now >= heartbeat_.ends(peer.heard())) give_up(peer);
    }
    if (!heartbeat_.due(now)) return;
    const std::lock_guard lock(mutex_);
    peers_.beat();
  }

  /// The first loss counts. *Also on the thread of a `call_off`.*
  void lose(const Loss& loss) {
    {
      const std::lock_guard lock(mutex_);
      if (closing_ || lost_) return;
      lost_ = true;
      if (rank_ == 0) peers_.tell_star(FrameKind::loss, encode(loss), loss.rank);
    }
    loss_notice_.record(loss.status);
    inbox_.put(PeerLost{loss.rank, loss.status});
    loss_notice_.tell();
  }

  [[nodiscard]] bool is_closing() {
    const std::lock_guard lock(mutex_);
    return closing_;
  }

  /// Whether all others have ended, too. A rank that has failed need not wait for that, only tell them.
  [[nodiscard]] bool may_go() {
    const std::lock_guard lock(mutex_);
    return failed_ ? peers_.have_written() : peers_.are_closed();
  }

  const int rank_;
  const int size_;
  const TreePosition position_;
  const std::string self_;
  // The I/O thread's alone:
  Heartbeat heartbeat_;
  LossPolicy policy_;
  DeferredLeave deferred_leave_;
  LauncherNews news_;
  std::optional<Acceptor> acceptor_;

  EventFd event_fd_;
  std::mutex mutex_;
  // Under the mutex, except what Peer says:
  Peers peers_{position_, event_fd_};
  TreeGrowth growth_;
  bool closing_ = false;
  bool failed_ = false;  // this rank has said so
  bool lost_ = false;    // a rank, or this one has failed; nothing that follows from it is reported

  Inbox inbox_;
  LossNotice loss_notice_;
  std::thread io_;
};

}  // namespace

World connect_tcp_control(const Membership& membership, const Config& config, TimePoint deadline) {
  RendezvousResult result = rendezvous(membership, config, deadline);
  World world;
  world.membership = membership;
  world.job = result.peer_list.job;
  world.members = result.peer_list.members;
  const bool tree = result.peer_list.radix > 0;
  auto made = std::make_unique<TcpControl>(membership, config, std::move(result));
  TcpControl& control = *made;
  world.control = std::move(made);
  if (tree) {
    try {
      connect_tree_links(world, config, deadline,
                         [&](TreeLink tree_link) { control.add(std::move(tree_link)); });
      control.grow();
    } catch (const Error& error) {
      control.fail(error.status());  // the others wait for this rank
      throw;
    } catch (const std::exception& error) {  // no more memory
      control.fail({Code::unavailable, error.what()});
      throw;
    }
  }
  return world;
}

}  // namespace hora::tcp
