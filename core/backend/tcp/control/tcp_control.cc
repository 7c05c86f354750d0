// SPDX-License-Identifier: Apache-2.0
#include "core/backend/tcp/control/tcp_control.h"

#include "core/backend/tcp/control/tree_links.h"
#include "core/backend/tcp/unreachable_pairs.h"
#include "core/base/event_fd.h"
#include "core/base/log.h"
#include "core/base/thread.h"
#include "core/join/rendezvous.h"
#include "core/launcher/news.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

namespace hora::tcp {
namespace {

constexpr std::chrono::seconds kMostFarewell{1};
constexpr int kNobody = -1;  // a loss for which no rank is to blame
constexpr std::chrono::milliseconds kBeat{1000};
constexpr int kBeatsInSilence = 4;              // at least: those that are late, or lost, are no silence
constexpr std::chrono::seconds kStandstill{3};  // between two turns of a thread: it was stopped itself
constexpr std::chrono::milliseconds kOthersWords{500};  // for all who cannot reach others to say so
constexpr std::chrono::seconds kLastWords{2};           // of a process that has said that it fails
constexpr std::chrono::milliseconds kDying{500};        // of a process whose socket has closed
constexpr std::chrono::milliseconds kFarAway{250};      // the same of one that cannot be seen from here
constexpr std::chrono::milliseconds kLauncher{300};     // to tell how a process ended that is seen to have
constexpr std::chrono::seconds kFarLauncher{1};         // the same of one that cannot be seen from here

/// The other end of one connection.
struct Peer {
  Peer(Member who, Connection connection)
      : member(std::move(who)),
        socket(std::move(connection.socket)),
        frames(std::move(connection.session.receives)),
        sends(std::move(connection.session.sends)) {}
  Member member;
  Descriptor socket;       // read by the I/O thread only
  Descriptor process;      // a pidfd where the rank's process can be seen from here
  bool tree_link = false;  // of the tree, beside the star
  bool far = false;        // another host's, or another container's: its process cannot be seen from here
  FrameReader frames;      // I/O thread only
  TimePoint heard;         // I/O thread only: when something came last
  bool goodbye = false;    // I/O thread only: it has ended in order
  // Under the control's mutex:
  Cipher sends;
  std::deque<Bytes> out;  // sealed, in this order
  std::size_t sent = 0;   // of out.front()
  bool open = true;       // false: nothing is written any more
};

std::chrono::milliseconds beat_of(const Config& config) {
  const auto silence = config.heartbeat_timeout;
  return silence.count() > 0 ? std::clamp(silence / kBeatsInSilence, std::chrono::milliseconds(10), kBeat)
                             : kBeat;
}

/// Control over TCP: a star, in which every rank has one connection to rank 0. With a tree (TreeSeat) it has
/// tree links beside the star, between all other parents and children. Losses, and the messages of ranks to
/// rank 0 alone, go over the star. Letters to parents go up the tree, and the announcements of rank 0 go down
/// it. The I/O thread hands an announcement on under the mutex under which it becomes a letter here, so that
/// this rank has it before those below. Until all its tree links are there (`grow`) a rank keeps what it has
/// to hand on.
///
/// Threads. One I/O thread waits in poll() for sockets, for the processes of ranks on this machine, and for
/// `event_fd_`; it alone reads sockets. The engine and user threads queue bytes and take letters under
/// `mutex_`. `send` writes at once when nothing is queued, which saves a hand-over, else leaves it to the I/O
/// thread. `mutex_` is never held while foreign code runs. The notice of a loss runs under `notice_mutex_`,
/// which is taken before `mutex_`, and the notice of a letter under `letter_mutex_`. The I/O thread waits
/// nowhere else than in poll(), so it beats whatever the engine and the user do.
///
/// Once a second, and oftener where less silence is borne, both ends of a connection beat. An end that has
/// heard nothing for the heartbeat's time-out takes the other for lost. The other is stopped, or its host or
/// the network is down. A thread that notices that it has not run for three seconds was stopped itself; it
/// blames no rank, and starts to wait anew.
///
/// A rank is lost when its connection or its process ends without a goodbye, when it is silent, or when it
/// says that it fails. Rank 0's I/O thread passes that on to all others, whatever its engine does. The first
/// loss counts; it becomes one letter on each survivor. A consequence of a rank's end must not overtake that
/// end: the program that started the ranks would take the consequence for the cause. So a loss is held back
/// (`pending_`) until the process it is about has ended, where that can be seen. Else it is held back for a
/// moment, in which its launcher hears of it. It is not held back for long, as a program may go on after its
/// failure. News that ranks cannot reach others is held back until all of them have said so. Where the
/// launcher tells how ranks end (`news_`), its word is waited for, too. Then all survivors' status has the
/// exit code or signal, whichever of them saw the connection end. The destructor sends a goodbye, after the
/// engines have agreed that the job has ended. So a goodbye that arrives while a thread still waits for
/// letters means that its sender gave up. It becomes a letter, too, but no notice: this rank may just be
/// finishing its last collective. In a tree rank 0's goodbye may be faster than its last announcement. So it
/// says down the tree, too, that there is no more, and its goodbye counts when that has come, or nothing more
/// can.
///
/// A tree link that breaks is no loss at first: if a rank has died, rank 0 will tell. If it does not
/// (kUntilControlTells), only the connection has broken, and the rank that sees that calls the job off.
class TcpControl final : public Control {
 public:
  TcpControl(const Membership& membership, const Config& config, Meetup meetup)
      : rank_(membership.rank),
        size_(membership.size),
        seat_(seat_in_tree(membership.rank, membership.size, meetup.peer_list.radix)),
        self_(describe(meetup.peer_list.members[static_cast<std::size_t>(membership.rank)])),
        silence_(config.heartbeat_timeout),
        beat_(beat_of(config)),
        news_(std::move(meetup.news)),
        acceptor_(std::move(meetup.acceptor)) {
    turn_ = Clock::now();
    next_beat_ = turn_ + beat_;
    const Member& self = meetup.peer_list.members[static_cast<std::size_t>(rank_)];
    for (std::size_t rank = 0; rank < meetup.peers.size(); ++rank) {
      if (!meetup.peers[rank]) continue;
      Peer& peer = peers_.emplace_back(meetup.peer_list.members[rank], *std::move(meetup.peers[rank]));
      peer.heard = turn_;
      const bool in_sight = !self.pid_space.empty() && self.pid_space == peer.member.pid_space;
      peer.far = !in_sight;
      if (in_sight && peer.member.pid != self.pid) {
        peer.process = Descriptor(static_cast<int>(::syscall(SYS_pidfd_open, peer.member.pid, 0)));
      }
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
      if (rank_ == 0 && grown_ && !failed_) hand_on(others, encode(others, {}));
      // A rank that has failed has said so; a goodbye would contradict it.
      for (auto& peer : peers_) {
        if (!failed_) queue(peer, FrameKind::goodbye, {});
      }
    }
    event_fd_.ring();
    io_.join();
  }
  TcpControl(const TcpControl&) = delete;
  TcpControl& operator=(const TcpControl&) = delete;

  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return size_; }
  [[nodiscard]] const TreeSeat& seat() const override { return seat_; }

  void send(int to, std::span<const std::byte> bytes) override {
    const std::lock_guard lock(mutex_);
    for (auto& peer : peers_) {
      if (peer.member.rank == to) return write(peer, FrameKind::letter, bytes);
    }
  }

  void announce(const RankSet& to, std::span<const std::byte> bytes) override {
    const std::lock_guard lock(mutex_);
    if (grown_) return hand_on(to, encode(to, bytes));
    for (auto& peer : peers_) {
      if (to.contains(peer.member.rank)) write(peer, FrameKind::letter, bytes);
    }
  }

  /// One of the tree links of this rank is there; it beats from now on.
  void add(TreeLink tree_link) {
    const std::lock_guard lock(mutex_);
    growing_.push_back(std::move(tree_link));
    event_fd_.ring();
  }

  /// All are: what is announced goes down the tree. Waits until the I/O thread has taken them, for a moment.
  void grow() {
    std::unique_lock lock(mutex_);
    adopted_.wait(lock, [this] { return growing_.empty(); });
    grown_ = true;
    for (const auto& [to, announcement] : early_) hand_on(to, announcement);
    early_.clear();
  }

  std::optional<Letter> receive(TimePoint deadline) override {
    std::unique_lock lock(mutex_);
    const auto news = [this] { return !letters_.empty(); };
    if (deadline == TimePoint::max()) {
      arrival_.wait(lock, news);
    } else if (deadline > TimePoint::min()) {
      arrival_.wait_until(lock, deadline, news);
    }
    if (letters_.empty()) return std::nullopt;
    Letter letter = std::move(letters_.front());
    letters_.pop_front();
    return letter;
  }

  void on_letter(std::function<void()> notice) override {
    const std::lock_guard lock(letter_mutex_);
    letter_notice_ = std::move(notice);
  }

  void fail(const Status& why) override {
    const std::lock_guard lock(mutex_);
    if (loss_) return;
    failed_ = true;
    loss_ = why;  // whatever breaks from now on follows from this
    const Status told = names_unreachable(why)
                            ? why
                            : Status{Code::aborted, fmt::format("{} failed: {}", self_, why.message)};
    const Bytes loss = encode(Loss{rank_, told});
    tell_star(rank_ == 0 ? FrameKind::loss : FrameKind::failure, loss);
  }

  void call_off(const Status& why) override {
    const Loss loss{kNobody, why};
    if (rank_ == 0) return lose(loss);
    const std::lock_guard lock(mutex_);
    tell_star(FrameKind::failure, encode(loss));
  }

  void on_loss(std::function<void(const Status&)> notice) override {
    const std::lock_guard notice_lock(notice_mutex_);
    notice_ = std::move(notice);
    std::optional<Status> noticed;
    {
      const std::lock_guard lock(mutex_);
      noticed = noticed_;
    }
    if (notice_ && noticed) notice_(*noticed);
  }

 private:
  // --- any thread, under mutex_ ---

  void queue(Peer& peer, FrameKind kind, std::span<const std::byte> contents) {
    if (peer.open) peer.out.push_back(seal_frame(peer.sends, kind, contents));
  }

  void write(Peer& peer, FrameKind kind, std::span<const std::byte> contents) {
    const bool idle = peer.out.empty();
    queue(peer, kind, contents);
    if (idle) flush(peer);
    if (!peer.out.empty()) event_fd_.ring();
  }

  void tell_star(FrameKind kind, std::span<const std::byte> contents) {
    for (auto& peer : peers_) {
      if (!peer.tree_link) write(peer, kind, contents);
    }
  }

  /// To those children who are meant, or have such below them.
  void hand_on(const RankSet& to, std::span<const std::byte> announcement) {
    for (auto& peer : peers_) {
      const int child = seat_.child(peer.member.rank);
      if (child >= 0 && to.intersects(seat_.below(static_cast<std::size_t>(child))))
        write(peer, FrameKind::announcement, announcement);
    }
  }

  /// Writes what the socket takes without waiting. The I/O thread notices a failure when it reads.
  static void flush(Peer& peer) {
    while (peer.open && !peer.out.empty()) {
      const Bytes& front = peer.out.front();
      const auto sent = ::send(peer.socket.fd(), front.data() + peer.sent, front.size() - peer.sent,
                               MSG_DONTWAIT | MSG_NOSIGNAL);
      if (sent < 0 && (errno == EAGAIN || errno == EINTR)) return;
      if (sent < 0) {
        peer.out.clear();
        peer.sent = 0;
        peer.open = false;
        ::shutdown(peer.socket.fd(), SHUT_WR);  // half a frame may have gone: nothing can follow it
        return;
      }
      peer.sent += static_cast<std::size_t>(sent);
      if (peer.sent < front.size()) return;
      peer.out.pop_front();
      peer.sent = 0;
    }
  }

  // --- the I/O thread ---

  void run() {
    TimePoint farewell = TimePoint::max();
    while (true) {
      wait(farewell);
      event_fd_.silence();
      news_.read();
      adopt();
      for (auto& peer : peers_) serve(peer);
      beat(Clock::now());
      tell_what_is_held_back(Clock::now());
      if (acceptor_) send_away(acceptor_->serve(Clock::now()));
      if (farewell == TimePoint::max() && is_closing()) farewell = Clock::now() + kMostFarewell;
      if (farewell != TimePoint::max() && (may_go() || Clock::now() >= farewell)) return;
    }
  }

  void wait(TimePoint farewell) {
    std::vector<pollfd> events{event_fd_.event()};
    TimePoint until = std::min(farewell, next_beat_);
    {
      const std::lock_guard lock(mutex_);
      for (const auto& peer : peers_) {
        if (!peer.socket) continue;
        const bool writes = !peer.out.empty();
        events.push_back({peer.socket.fd(), static_cast<short>(writes ? POLLIN | POLLOUT : POLLIN), 0});
        if (silence_.count() > 0) until = std::min(until, peer.heard + silence_);
        if (peer.process) events.push_back({peer.process.fd(), POLLIN, 0});
      }
    }
    news_.watch(events);
    if (pending_ && pending_->process >= 0 && !pending_->over)
      events.push_back({pending_->process, POLLIN, 0});
    if (pending_) until = std::min(until, pending_->until);
    if (torn_) until = std::min(until, torn_->until);
    if (acceptor_) {
      acceptor_->append_to(events);
      until = std::min(until, acceptor_->next());
    }
    ::poll(events.data(), events.size(), milliseconds_until(until));
  }

  void adopt() {
    const std::lock_guard lock(mutex_);
    if (growing_.empty()) return;
    for (auto& tree_link : std::exchange(growing_, {})) {
      Peer& peer = peers_.emplace_back(std::move(tree_link.member), std::move(tree_link.connection));
      peer.tree_link = true;
      peer.heard = Clock::now();
    }
    adopted_.notify_one();
  }

  void serve(Peer& peer) {
    if (!peer.socket) return;
    const bool process_ended = peer.process && await_events(peer.process.fd(), POLLIN, TimePoint::min());
    std::string how = read(peer);  // first: what it said before it ended counts
    if (how.empty() && process_ended) how = "its process ended";
    if (how.empty()) {
      const std::lock_guard lock(mutex_);
      flush(peer);
      if (closing_ && peer.open && peer.out.empty()) {
        ::shutdown(peer.socket.fd(), SHUT_WR);  // the rest of the farewell is to read until it has ended, too
        peer.open = false;
      }
      return;
    }
    end(peer, how);
  }

  /// Reads and handles what has arrived; how the connection ended, if it did.
  std::string read(Peer& peer) {
    std::array<std::byte, 64 * 1024> buffer;
    while (true) {
      const auto got = ::recv(peer.socket.fd(), buffer.data(), buffer.size(), MSG_DONTWAIT);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0 && errno == EAGAIN) return {};
      if (got < 0) return fmt::format("its connection broke: {}", std::strerror(errno));
      if (got == 0) return "its connection closed without a goodbye";
      peer.heard = Clock::now();
      try {
        peer.frames.feed(std::span(buffer).first(static_cast<std::size_t>(got)));
        while (auto frame = peer.frames.next()) take(peer, *std::move(frame));
      } catch (const Error& error) {
        return fmt::format("it sent nonsense: {}", error.what());
      }
    }
  }

  void take(Peer& peer, Frame frame) {
    switch (frame.kind) {
      case FrameKind::letter:
        if (frame.bytes.empty()) throw Error(Code::internal, "an empty letter");
        return deliver({peer.member.rank, std::move(frame.bytes), {}, peer.heard});
      case FrameKind::announcement: return hear_announcement(peer, std::move(frame.bytes));
      case FrameKind::goodbye: return hear_goodbye(peer);
      case FrameKind::beat: return;
      case FrameKind::failure:
      case FrameKind::loss:
        if (!peer.tree_link) return hear_of(decode_loss(frame.bytes, size_), peer);
        [[fallthrough]];
      default: throw Error(Code::internal, "a frame out of place");
    }
  }

  void hear_announcement(const Peer& from, Bytes contents) {
    if (rank_ == 0 || from.member.rank != seat_.parent)
      throw Error(Code::internal, "an announcement that does not come down the tree");
    auto [to, letter] = decode_announcement(contents, size_);
    const bool last = letter.empty();
    const bool own = !last && to.contains(rank_);
    {
      const std::lock_guard lock(mutex_);
      if (own) letters_.push_back({0, std::move(letter), {}, from.heard});
      if (grown_) {
        hand_on(to, contents);
      } else {
        early_.emplace_back(std::move(to), std::move(contents));
      }
    }
    if (own) tell_of_letter();
    if (last) end_announcements();
  }

  void hear_goodbye(Peer& peer) {
    peer.goodbye = true;
    if (peer.tree_link) {
      if (peer.member.rank == seat_.parent) end_announcements();
      return;
    }
    Letter letter{peer.member.rank,
                  {},
                  {Code::aborted, fmt::format("{} has left the job", describe(peer.member))},
                  peer.heard};
    if (seat_.parent == 0 || announcements_ended_) return deliver(std::move(letter));
    goodbye_ = std::move(letter);
  }

  /// The parent has no more of rank 0's to hand on.
  void end_announcements() {
    announcements_ended_ = true;
    if (goodbye_) deliver(*std::exchange(goodbye_, std::nullopt));
  }

  /// The rank at the other end of a tree link may have died: then rank 0 tells of it.
  void tear(const Peer& tree_link, const std::string& how) {
    if (tree_link.goodbye) return;
    const Status why{Code::aborted,
                     fmt::format("{} and {} have lost the connection over which ranks agree: {}", self_,
                                 describe(tree_link.member), how)};
    if (tree_link.member.rank == seat_.parent) {
      if (goodbye_) goodbye_->loss = why;  // rank 0 tells nothing any more
      end_announcements();
    }
    if (!torn_ && !is_closing()) torn_ = Torn{why, Clock::now() + kUntilControlTells};
  }

  void hear_of(const Loss& loss, const Peer& teller) {
    const bool unreachable_pairs = rank_ == 0 && names_unreachable(loss.status);
    if (pending_) {  // the first counts, but all who cannot reach others are one failure
      if (unreachable_pairs && names_unreachable(pending_->loss.status))
        pending_->loss.status = merge_unreachable(pending_->loss.status, loss.status);
      return;
    }
    const bool own = loss.rank == teller.member.rank && !is_closing();
    const TimePoint now = Clock::now();
    if (unreachable_pairs) {
      pending_ = Pending{loss, now + kOthersWords, {}, -1};
      pending_->unreachable_pairs = true;
    } else if (own && (teller.process || teller.far)) {
      pending_ = Pending{loss, now + kLastWords, {}, teller.process.fd()};
    } else {
      lose(loss);
    }
  }

  /// Hears and tells it nothing any more. Returns its process.
  Descriptor close(Peer& peer) {
    const std::lock_guard lock(mutex_);
    peer.open = false;
    peer.out.clear();
    peer.socket = Descriptor();
    return std::move(peer.process);
  }

  /// A silent rank does not end, so there is no news of that to wait for.
  void miss(Peer& peer) {
    close(peer);
    const auto silent = [this](const char* why) {
      return fmt::format("no sign of life for {} s: {}; a longer wait is HORA_HEARTBEAT_TIMEOUT",
                         std::chrono::duration<double>(silence_).count(), why);
    };
    if (peer.tree_link) return tear(peer, silent("one of them was stopped, or the network between is down"));
    if (pending_ || peer.goodbye) return;
    lose({peer.member.rank,
          {Code::aborted, fmt::format("{} is gone: {}", describe(peer.member),
                                      silent("it is stopped, or its host or the network between is down"))}});
  }

  void end(Peer& peer, const std::string& how) {
    Descriptor process = close(peer);
    if (peer.tree_link) return tear(peer, how);
    const TimePoint now = Clock::now();
    if (pending_) {
      if (process && pending_->process == process.fd()) pending_->owned = std::move(process);
      if (peer.far && pending_->loss.rank == peer.member.rank)
        pending_->until = std::min(pending_->until, now + far_patience());
      return;  // a consequence, or it would not come second
    }
    if (peer.goodbye) return;
    const auto told = [&](const std::string& what) {
      return fmt::format("{} is gone: {}", describe(peer.member), what);
    };
    const Loss loss{peer.member.rank, {Code::aborted, told(how)}};
    // A process that dies closes its sockets a moment before it is dead. A rank that is leaving need not
    // know.
    if ((!process && !peer.far) || is_closing()) return lose(loss);
    if (peer.far) {
      pending_ = Pending{loss, now + far_patience(), {}, -1};
    } else {
      const int fd = process.fd();
      pending_ = Pending{loss, now + kDying, std::move(process), fd, told("its process ended")};
    }
    pending_->lost = describe(peer.member);
  }

  [[nodiscard]] std::chrono::milliseconds far_patience() const {
    return news_.open() ? std::chrono::milliseconds(kFarLauncher) : kFarAway;
  }

  void tell_what_is_held_back(TimePoint now) {
    tell_of_pending(now);
    if (torn_ && now >= torn_->until) call_off(std::exchange(torn_, std::nullopt)->status);
  }

  /// Makes the loss that is held back known when it is time.
  void tell_of_pending(TimePoint now) {
    if (!pending_) return;
    const RankEnd* end = pending_->unreachable_pairs ? nullptr : news_.end_of(pending_->loss.rank);
    const bool ended = pending_->process >= 0 && await_events(pending_->process, POLLIN, TimePoint::min());
    if (ended && !std::exchange(pending_->over, true))
      pending_->until = std::min(pending_->until, news_.open() ? now + kLauncher : now);
    if (end == nullptr && now < pending_->until && !is_closing()) return;
    Pending pending = std::move(*pending_);
    pending_.reset();
    std::string& message = pending.loss.status.message;
    if (ended && !pending.ended.empty()) message = std::move(pending.ended);
    if (end != nullptr) {
      message = pending.lost.empty() ? message + describe_after(message, *end)
                                     : fmt::format("{} is gone: it {}", pending.lost, describe(*end));
    }
    lose(pending.loss);
  }

  void beat(TimePoint now) {
    const bool stopped = now - turn_ > kStandstill;
    turn_ = now;
    for (auto& peer : peers_) {
      if (stopped) peer.heard = now;
    }
    for (auto& peer : peers_) {
      if (peer.socket && silence_.count() > 0 && now - peer.heard >= silence_) miss(peer);
    }
    if (now < next_beat_) return;
    next_beat_ = now + beat_;
    for (auto& peer : peers_) {
      const std::lock_guard lock(mutex_);
      if (peer.socket && peer.open && peer.out.empty()) write(peer, FrameKind::beat, {});
    }
  }

  void lose(const Loss& loss) {
    {
      const std::lock_guard lock(mutex_);
      if (closing_ || loss_) return;
      loss_ = loss.status;
      noticed_ = loss.status;
      letters_.push_back({loss.rank, {}, loss.status, Clock::now()});
      if (rank_ == 0) {
        const Bytes told = encode(loss);
        for (auto& peer : peers_) {
          if (peer.member.rank != loss.rank) write(peer, FrameKind::loss, told);
        }
      }
    }
    tell_of_letter();
    const std::lock_guard lock(notice_mutex_);
    if (notice_) notice_(loss.status);
  }

  void deliver(Letter letter) {
    {
      const std::lock_guard lock(mutex_);
      letters_.push_back(std::move(letter));
    }
    tell_of_letter();
  }

  void tell_of_letter() {
    arrival_.notify_one();
    const std::lock_guard lock(letter_mutex_);
    if (letter_notice_) letter_notice_();
  }

  /// Somebody who knows the secret, but nobody is missing: a rank that is early for the next meeting, and
  /// tries again.
  static void send_away(std::vector<Acceptor::Arrival> arrivals) { arrivals.clear(); }

  [[nodiscard]] bool is_closing() {
    const std::lock_guard lock(mutex_);
    return closing_;
  }

  /// Whether all others have ended, too. A rank that has failed need not wait for that, only tell them.
  [[nodiscard]] bool may_go() {
    const std::lock_guard lock(mutex_);
    return std::none_of(peers_.begin(), peers_.end(), [this](const Peer& peer) {
      return failed_ ? peer.open && !peer.out.empty() : static_cast<bool>(peer.socket);
    });
  }

  /// A loss that waits for what it may follow from.
  struct Pending {
    Loss loss;
    TimePoint until;
    Descriptor owned;     ///< the process of a rank whose connection has ended
    int process = -1;     ///< the loss is announced as soon as this has ended; -1: not before `until`
    std::string ended{};  ///< what to say of it then instead, if not empty
    std::string lost{};   ///< the rank, if it did not say itself that it fails
    bool unreachable_pairs = false;  ///< it tells of unreachable pairs
    bool over = false;               ///< the process has ended, and the launcher has a moment to tell how
  };

  /// A tree link has broken; what to say if rank 0 does not tell why.
  struct Torn {
    Status status;
    TimePoint until;
  };

  const int rank_;
  const int size_;
  const TreeSeat seat_;
  const std::string self_;
  const std::chrono::milliseconds silence_;
  const std::chrono::milliseconds beat_;
  TimePoint turn_;                    // I/O thread only: when it last came out of poll()
  TimePoint next_beat_;               // I/O thread only
  std::optional<Pending> pending_;    // I/O thread only
  std::optional<Letter> goodbye_;     // I/O thread only: rank 0's, before the last announcement
  bool announcements_ended_ = false;  // I/O thread only
  std::optional<Torn> torn_;          // I/O thread only
  LauncherNews news_;                 // I/O thread only
  std::optional<Acceptor> acceptor_;  // I/O thread only
  EventFd event_fd_;
  std::deque<Peer> peers_;

  std::mutex mutex_;
  std::condition_variable arrival_;
  std::deque<Letter> letters_;
  std::vector<TreeLink> growing_;                 // tree links that the I/O thread has not taken yet
  bool grown_ = false;                            // there is a tree, and all tree links of this rank
  std::condition_variable adopted_;               // of `growing_`
  std::vector<std::pair<RankSet, Bytes>> early_;  // announcements that came before the tree links
  bool closing_ = false;
  bool failed_ = false;            // this rank has said so
  std::optional<Status> loss_;     // the first; nothing that follows from it is reported
  std::optional<Status> noticed_;  // the loss, if it is another rank's

  std::mutex letter_mutex_;
  std::function<void()> letter_notice_;

  std::mutex notice_mutex_;
  std::function<void(const Status&)> notice_;

  std::thread io_;
};

}  // namespace

World connect_tcp_control(const Membership& membership, const Config& config, TimePoint deadline) {
  Meetup meetup = meet(membership, config, deadline);
  World world;
  world.membership = membership;
  world.job = meetup.peer_list.job;
  world.members = meetup.peer_list.members;
  const bool tree = meetup.peer_list.radix > 0;
  auto made = std::make_unique<TcpControl>(membership, config, std::move(meetup));
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
