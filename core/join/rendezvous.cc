// SPDX-License-Identifier: Apache-2.0
#include "core/join/rendezvous.h"

#include "core/base/log.h"
#include "core/comm/unreachable_pairs.h"
#include "core/join/connector.h"
#include "core/join/job_id.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <thread>

namespace hora {
namespace {

constexpr std::chrono::milliseconds kPause{
    20};  // between tries to join a rank 0 that is still busy with a former rendezvous
constexpr std::chrono::milliseconds kLaunchersWord{500};  // to tell how a rank ended whose connection has

Descriptor open_listener(const Membership& membership) {
  if (membership.listener) return Descriptor(::fcntl(membership.listener->fd(), F_DUPFD_CLOEXEC, 0));
  std::vector<std::string> failures;
  for (const auto& candidate : parse_addresses(membership.coordinator)) {
    try {
      return listen_at(candidate);
    } catch (const Error& error) {
      failures.emplace_back(error.what());
    }
  }
  throw Error(Code::unavailable,
              fmt::format("rank 0 can listen at none of its addresses: {}", fmt::join(failures, "; ")));
}

/// Sends every rank that has come home with a reason, and throws it.
[[noreturn]] void call_off(std::vector<std::optional<Connection>>& peers, const Status& why) {
  const Bytes refusal = encode(Loss{0, why});
  for (auto& peer : peers) {
    if (!peer) continue;
    try {
      const Bytes frame = seal_frame(peer->session.sends, FrameKind::refusal, refusal);
      write_all(peer->socket.fd(), frame, Clock::now() + std::chrono::seconds(1));
    } catch (const Error&) {
      continue;  // it is gone itself; the others still must hear
    }
  }
  throw Error(why);
}

/// Of a rank, as far as it is known here, which now never comes.
std::string describe_end(const PeerList& peer_list, int rank, const RankEnd* end) {
  const auto at = static_cast<std::size_t>(rank);
  const bool known = at < peer_list.members.size() && peer_list.members[at].pid != 0;
  return fmt::format("{} has ended before all ranks had come{}",
                     known ? describe(peer_list.members[at]) : fmt::format("rank {}", rank),
                     end == nullptr ? "" : ": it " + describe(*end));
}

/// Calls the rendezvous off if the launcher knows a rank to have ended. The end of a rank that never came is
/// not seen in another way.
void look_at(LauncherNews& news, const PeerList& peer_list, std::vector<std::optional<Connection>>& peers) {
  news.read();
  if (const RankEnd* end = news.first())
    call_off(peers, {Code::aborted, describe_end(peer_list, end->rank, end)});
}

/// How a rank has ended, if the launcher tells that soon.
const RankEnd* await_end(LauncherNews& news, int rank) {
  const TimePoint deadline = Clock::now() + kLaunchersWord;
  while (true) {
    news.read();
    const RankEnd* end = news.end_of(rank);
    if (end != nullptr || !news.open() || Clock::now() >= deadline) return end;
    std::vector<pollfd> events;
    news.watch(events);
    ::poll(events.data(), events.size(), milliseconds_until(deadline));
  }
}

std::vector<int> missing(const std::vector<std::optional<Connection>>& peers) {
  std::vector<int> ranks;
  for (std::size_t rank = 1; rank < peers.size(); ++rank) {
    if (!peers[rank]) ranks.push_back(static_cast<int>(rank));
  }
  return ranks;
}

void wait_for_events(const RendezvousResult& result, TimePoint deadline) {
  std::vector<pollfd> events;
  result.acceptor->append_to(events);
  result.news.watch(events);
  for (const auto& peer : result.peers) {
    if (peer) events.push_back({peer->socket.fd(), POLLIN, 0});
  }
  ::poll(events.data(), events.size(), milliseconds_until(std::min(deadline, result.acceptor->next())));
}

/// Ranks that have come say nothing until they have the peer list: one that can be read from has ended.
void look_after(RendezvousResult& result) {
  look_at(result.news, result.peer_list, result.peers);
  for (std::size_t rank = 1; rank < result.peers.size(); ++rank) {
    auto& peer = result.peers[rank];
    if (!peer || !await_events(peer->socket.fd(), POLLIN, TimePoint::min())) continue;
    peer.reset();
    const auto number = static_cast<int>(rank);
    const RankEnd* end = await_end(result.news, number);
    call_off(result.peers, {Code::aborted, describe_end(result.peer_list, number, end)});
  }
}

void add_address(Member& member, const std::string& address) {
  constexpr std::size_t kMost = 8;
  auto& all = member.addresses;
  if (all.size() < kMost && std::find(all.begin(), all.end(), address) == all.end()) all.push_back(address);
}

void admit(Acceptor::Arrival arrival, RendezvousResult& result) {
  const auto size = static_cast<int>(result.peers.size());
  auto rank = static_cast<std::size_t>(arrival.hello.rank);
  if (arrival.hello.size != size) {
    result.peers.push_back(std::move(arrival.connection));  // it must hear, too
    call_off(result.peers,
             {Code::invalid_argument, fmt::format("rank 0 was started as one of {}, rank {} as one of {}",
                                                  size, rank, arrival.hello.size)});
  }
  if (arrival.hello.role != Role::control || rank == 0) return;
  if (result.peers[rank]) {
    const Member& former = result.peer_list.members[rank];
    result.peers.push_back(std::move(arrival.connection));
    call_off(result.peers,
             {Code::invalid_argument,
              fmt::format("two processes were started as rank {}: pid {} on {} and "
                          "pid {} on {}",
                          rank, former.pid, former.host, arrival.member.pid, arrival.member.host)});
  }
  try {
    add_address(arrival.member, remote_address(arrival.connection.socket.fd()).host);
    add_address(result.peer_list.members.front(), local_address(arrival.connection.socket.fd()).host);
  } catch (const Error&) {
    return;  // it has gone again; if it does not come once more it will be missing
  }
  result.peers[rank] = std::move(arrival.connection);
  result.peer_list.members[rank] = arrival.member;
}

void send_peer_list(RendezvousResult& result, TimePoint deadline) {
  const Bytes peer_list = encode(result.peer_list);
  for (std::size_t rank = 1; rank < result.peers.size(); ++rank) {
    auto& peer = result.peers[rank];
    try {
      write_all(peer->socket.fd(), seal_frame(peer->session.sends, FrameKind::peer_list, peer_list),
                deadline);
    } catch (const Error& error) {
      peer.reset();
      call_off(result.peers,
               {Code::aborted, fmt::format("{} has ended before all ranks had come: {}",
                                           describe(result.peer_list.members[rank]), error.what())});
    }
  }
}

/// Up to so many ranks rank 0 hears each by itself faster than a tree puts together what they say.
constexpr int kMostInStar = 64;
constexpr int kRadix = 8;

int radix_for(const Membership& membership, const Config& config) {
  const int radix = config.tree_radix.value_or(membership.size > kMostInStar ? kRadix : 0);
  if (radix < 0 || radix > kMostRadix)
    throw Error(Code::invalid_argument,
                fmt::format("Config::tree_radix is {}: expected 0 to {}", radix, kMostRadix));
  return radix;
}

LauncherNews news_for(const Membership& membership, const Config& config) {
  if (membership.news) return LauncherNews(membership.news->fd());
  return LauncherNews(config.mpi_communicator ? std::nullopt : config.news_fd);
}

/// The warning that is given once, when ranks have waited for some time to meet. It comes before they give
/// up, and soon enough for a user who looks on.
class EarlyWarning {
 public:
  explicit EarlyWarning(const Config& config) : timeout_(config.start_timeout) {
    due_ = Clock::now() + std::min<Clock::duration>(std::chrono::seconds(10), timeout_ / 2);
  }

  [[nodiscard]] TimePoint due() const { return due_; }
  /// Warns with the text that `what` makes, if it is time.
  template <typename What>
  void tell_if_due(What what) {
    if (Clock::now() < due_) return;
    due_ = TimePoint::max();
    log(LogLevel::warning, fmt::format("{}; still trying, until {} s have passed (HORA_START_TIMEOUT)",
                                       what(), std::chrono::duration<double>(timeout_).count()));
  }

 private:
  std::chrono::milliseconds timeout_;
  TimePoint due_;
};

RendezvousResult serve_rendezvous(const Membership& membership, const Config& config, TimePoint deadline) {
  RendezvousResult result;
  result.peers.resize(static_cast<std::size_t>(membership.size));
  result.peer_list.job = job_id(membership, config);
  result.peer_list.radix = radix_for(membership, config);
  result.peer_list.members.resize(result.peers.size());
  result.peer_list.members.front() = this_member(0);
  result.news = news_for(membership, config);
  result.acceptor.emplace(open_listener(membership), membership.secret);
  EarlyWarning warning(config);
  for (auto absent = missing(result.peers); !absent.empty(); absent = missing(result.peers)) {
    if (Clock::now() >= deadline) {
      call_off(
          result.peers,
          {Code::timeout,
           fmt::format("{} did not come within {} s: look whether they started; a longer wait is "
                       "HORA_START_TIMEOUT",
                       describe_ranks(absent), std::chrono::duration<double>(config.start_timeout).count())});
    }
    warning.tell_if_due([&] { return fmt::format("{} did not come yet", describe_ranks(absent)); });
    wait_for_events(result, std::min(deadline, warning.due()));
    look_after(result);
    for (auto& arrival : result.acceptor->serve(Clock::now())) admit(std::move(arrival), result);
  }
  send_peer_list(result, deadline);
  return result;
}

Frame read_frame(Connection& first, TimePoint deadline) {
  Bytes sealed(kSealedHeadBytes);
  read_exactly(first.socket.fd(), sealed, deadline);
  const FrameHead head = open_head(first.session.receives, sealed);
  if (head.kind != FrameKind::peer_list && head.kind != FrameKind::refusal)
    throw Error(Code::internal, "rank 0 answered with something that is neither a peer list nor a refusal");
  sealed.resize(head.sealed());
  read_exactly(first.socket.fd(), sealed, deadline);
  return {head.kind, open_contents(first.session.receives, sealed)};
}

/// The candidates for rank 0's address. Names may get their addresses only while the job starts, as those of
/// Kubernetes do, so they are asked again. A value.
class Candidates {
 public:
  explicit Candidates(const std::string& list)
      : candidates_(parse_addresses(list)), why_(candidates_.size()) {}

  /// Adds the addresses of all that have one.
  void resolve(Connector& connector) {
    for (std::size_t i = 0; i < candidates_.size(); ++i) {
      why_[i].clear();
      for (const auto& address : resolve_name(candidates_[i], why_[i])) connector.add(address);
    }
  }
  [[nodiscard]] bool resolved() const {
    return std::all_of(why_.begin(), why_.end(), [](const auto& why) { return why.empty(); });
  }
  /// How each has failed.
  [[nodiscard]] std::string failures(const Connector& connector) const {
    auto all = connector.failures();
    std::copy_if(why_.begin(), why_.end(), std::back_inserter(all), [](auto& why) { return !why.empty(); });
    return fmt::to_string(fmt::join(all, "; "));
  }

 private:
  std::vector<Address> candidates_;
  std::vector<std::string> why_;  // none of its addresses is known
};

/// A connection to rank 0. Throws UnreachableError (timeout) that names all candidates and how each failed,
/// and Error(aborted) if a rank has ended, without which there is no rendezvous.
Connection find_first(const Membership& membership, const Config& config, LauncherNews& news,
                      TimePoint deadline) {
  constexpr std::chrono::milliseconds kAskAgain{500};
  TimePoint now = Clock::now();
  Connector connector(membership.secret, {Role::control, membership.rank, membership.size}, {}, now);
  Candidates candidates(membership.coordinator);
  TimePoint ask = now;
  std::vector<std::optional<Connection>> nobody;
  EarlyWarning warning(config);
  while (true) {
    look_at(news, {}, nobody);
    warning.tell_if_due([&] {
      return fmt::format("rank {} did not get through to rank 0 yet: {}", membership.rank,
                         candidates.failures(connector));
    });
    if (now >= ask) {
      candidates.resolve(connector);
      now = Clock::now();
      ask = candidates.resolved() ? TimePoint::max() : now + kAskAgain;
    }
    if (auto connection = connector.serve(now)) return *std::move(connection);
    if (now >= deadline || (candidates.resolved() && is_cut_off(membership, connector))) break;
    std::vector<pollfd> events;
    connector.append_to(events);
    news.watch(events);
    ::poll(events.data(), events.size(),
           milliseconds_until(std::min({deadline, ask, warning.due(), connector.next()})));
    now = Clock::now();
  }
  throw UnreachableError(
      {Code::timeout, fmt::format("rank {} did not get through to rank 0 within {} s: {}", membership.rank,
                                  std::chrono::duration<double>(config.start_timeout).count(),
                                  candidates.failures(connector))},
      {0});
}

/// One try to join: the frame that rank 0 answers with. It may also still be busy with the ranks' former
/// rendezvous, and close the connection: then Error(unavailable).
Frame try_to_join(const Membership& membership, Connection& first, TimePoint deadline) {
  Member self = this_member(membership.rank);
  add_address(self, local_address(first.socket.fd()).host);
  write_all(first.socket.fd(), seal_frame(first.session.sends, FrameKind::member, encode(self)), deadline);
  // Rank 0 says when the time is over, and who is missing; a little later is late enough to give up on that.
  try {
    return read_frame(first, deadline + std::chrono::seconds(2));
  } catch (const Error& error) {
    if (error.code() != Code::timeout) throw;
    throw Error(Code::timeout,
                fmt::format("rank {} has got through to rank 0, which has not said since whether all ranks "
                            "have come: its process is stopped, or its host or the network between is down",
                            membership.rank));
  }
}

RendezvousResult join_rendezvous(const Membership& membership, const Config& config, TimePoint deadline) {
  std::string why = "no answer";
  LauncherNews news = news_for(membership, config);
  while (Clock::now() < deadline) {
    Connection first = find_first(membership, config, news, deadline);
    try {
      const Frame frame = try_to_join(membership, first, deadline);
      if (frame.kind == FrameKind::refusal) throw Error(decode_loss(frame.bytes, membership.size).status);
      RendezvousResult result;
      result.peer_list = decode_peer_list(frame.bytes, membership.size);
      result.peers.resize(static_cast<std::size_t>(membership.size));
      result.peers.front() = std::move(first);
      result.news = std::move(news);
      return result;
    } catch (const Error& error) {
      if (error.code() != Code::unavailable) throw;
      why = error.what();
    }
    std::this_thread::sleep_for(kPause);
  }
  throw Error(Code::timeout, fmt::format("rank {} did not get through to rank 0 at {}: {}", membership.rank,
                                         membership.coordinator, why));
}

}  // namespace

RendezvousResult rendezvous(const Membership& membership, const Config& config, TimePoint deadline) {
  static_cast<void>(
      radix_for(membership, config));  // on all ranks, as rank 0 alone would keep the others waiting
  if (membership.coordinator.empty()) {
    throw Error(Code::invalid_argument,
                fmt::format("rank {} of {} does not know where rank 0 is: start the ranks with "
                            "hrun, or set HORA_COORDINATOR=host:port",
                            membership.rank, membership.size));
  }
  return membership.rank == 0 ? serve_rendezvous(membership, config, deadline)
                              : join_rendezvous(membership, config, deadline);
}

}  // namespace hora
