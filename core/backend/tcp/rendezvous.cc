// SPDX-License-Identifier: Apache-2.0
#include "core/backend/tcp/rendezvous.h"

#include "core/backend/tcp/address.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <random>
#include <thread>

namespace hora {
namespace {

constexpr std::chrono::milliseconds kPause{20};  // between tries to reach a rank 0 that is not there yet

Descriptor open_door(const Config& config) {
  if (config.coordinator_fd) {
    // The launcher's socket stays open, so that this process may meet the others again after a shutdown.
    Descriptor door(::fcntl(*config.coordinator_fd, F_DUPFD_CLOEXEC, 0));
    int listens = 0;
    socklen_t length = sizeof listens;
    if (::getsockopt(door.fd(), SOL_SOCKET, SO_ACCEPTCONN, &listens, &length) != 0 || listens == 0) {
      throw Error(Code::invalid_argument,
                  fmt::format("HORA_COORDINATOR_FD={} is not a listening socket: start the ranks "
                              "with hrun",
                              *config.coordinator_fd));
    }
    return door;
  }
  return listen_at(parse_address(config.coordinator));
}

/// Sends every rank that has come home with a reason, and throws it.
[[noreturn]] void call_off(const std::vector<Descriptor>& peers, const Status& why) {
  const Bytes refusal = encode(FrameKind::refusal, encode(Loss{0, why}));
  for (const auto& peer : peers) {
    if (!peer) continue;
    try {
      write_all(peer.fd(), refusal, Clock::now() + std::chrono::seconds(1));
    } catch (const Error&) {
      continue;  // it is gone itself; the others still must hear
    }
  }
  throw Error(why);
}

std::vector<int> missing(const std::vector<Descriptor>& peers) {
  std::vector<int> ranks;
  for (std::size_t rank = 1; rank < peers.size(); ++rank) {
    if (!peers[rank]) ranks.push_back(static_cast<int>(rank));
  }
  return ranks;
}

void wait_for_events(const Lobby& lobby, TimePoint deadline) {
  std::vector<pollfd> events;
  lobby.append_to(events);
  ::poll(events.data(), events.size(), milliseconds_until(std::min(deadline, lobby.next())));
}

void admit(Lobby::Arrival arrival, Meetup& meetup) {
  const auto size = static_cast<int>(meetup.peers.size());
  auto rank = static_cast<std::size_t>(arrival.hello.rank);
  if (arrival.hello.size != size) {
    meetup.peers.push_back(std::move(arrival.socket));  // it must hear, too
    call_off(meetup.peers,
             {Code::invalid_argument, fmt::format("rank 0 was started as one of {}, rank {} as one of {}",
                                                  size, rank, arrival.hello.size)});
  }
  if (arrival.hello.role != Role::control || rank == 0) return;
  if (meetup.peers[rank]) {
    const Member& former = meetup.roster.members[rank];
    meetup.peers.push_back(std::move(arrival.socket));
    call_off(meetup.peers,
             {Code::invalid_argument,
              fmt::format("two processes were started as rank {}: pid {} on {} and "
                          "pid {} on {}",
                          rank, former.pid, former.host, arrival.member.pid, arrival.member.host)});
  }
  meetup.peers[rank] = std::move(arrival.socket);
  meetup.roster.members[rank] = arrival.member;
}

Meetup meet_as_first(const Config& config, TimePoint deadline) {
  Meetup meetup;
  meetup.peers.resize(static_cast<std::size_t>(config.size));
  meetup.roster.job = fmt::format("{:08x}", std::random_device{}());
  meetup.roster.members.resize(meetup.peers.size());
  meetup.roster.members.front() = this_member(0);
  meetup.lobby.emplace(open_door(config), config.secret);
  for (auto absent = missing(meetup.peers); !absent.empty(); absent = missing(meetup.peers)) {
    if (Clock::now() >= deadline) {
      call_off(
          meetup.peers,
          {Code::timeout,
           fmt::format("{} did not come within {} s: look whether they started; a longer wait is "
                       "HORA_START_TIMEOUT",
                       describe_ranks(absent), std::chrono::duration<double>(config.start_timeout).count())});
    }
    wait_for_events(*meetup.lobby, deadline);
    for (auto& arrival : meetup.lobby->serve(Clock::now())) admit(std::move(arrival), meetup);
  }
  const Bytes roster = encode(FrameKind::roster, encode(meetup.roster));
  for (std::size_t rank = 1; rank < meetup.peers.size(); ++rank)
    write_all(meetup.peers[rank].fd(), roster, deadline);
  return meetup;
}

Frame read_frame(int fd, TimePoint deadline) {
  Bytes head(kFrameHeadBytes);
  read_exactly(fd, head, deadline);
  std::size_t length = 0;
  for (std::size_t i = 0; i < 4; ++i) length |= static_cast<std::size_t>(head[i]) << (8 * i);
  const auto kind = static_cast<FrameKind>(head[4]);
  if (length > kMostFrameBytes || (kind != FrameKind::roster && kind != FrameKind::refusal)) {
    throw Error(Code::internal, "rank 0 answered with something that is neither a roster nor a refusal");
  }
  Frame frame{kind, Bytes(length)};
  read_exactly(fd, frame.bytes, deadline);
  return frame;
}

/// One try to join: the frame that rank 0 answers with. It may also still be busy with the ranks' former
/// meeting, and close the connection: then Error(unavailable).
Frame knock(const Config& config, const Descriptor& socket, TimePoint deadline) {
  greet(socket.fd(), config.secret, {Role::control, config.rank, config.size}, deadline);
  write_all(socket.fd(), encode(FrameKind::member, encode(this_member(config.rank))), deadline);
  // Rank 0 says when the time is over, and who is missing; a little later is late enough to give up on that.
  return read_frame(socket.fd(), deadline + std::chrono::seconds(2));
}

Meetup meet_as_other(const Config& config, TimePoint deadline) {
  const Address address = parse_address(config.coordinator);
  std::string why = "no answer";
  while (Clock::now() < deadline) {
    Descriptor socket = try_connect(address, deadline, why);
    try {
      if (socket) {
        const Frame frame = knock(config, socket, deadline);
        if (frame.kind == FrameKind::refusal) throw Error(decode_loss(frame.bytes, config.size).status);
        Meetup meetup;
        meetup.roster = decode_roster(frame.bytes, config.size);
        meetup.peers.resize(static_cast<std::size_t>(config.size));
        meetup.peers.front() = std::move(socket);
        return meetup;
      }
    } catch (const Error& error) {
      if (error.code() != Code::unavailable) throw;
      why = error.what();
    }
    std::this_thread::sleep_for(kPause);
  }
  throw Error(Code::timeout, fmt::format("rank {} did not get through to rank 0 at {}: {}", config.rank,
                                         config.coordinator, why));
}

}  // namespace

Meetup meet(const Config& config, TimePoint deadline) {
  if (config.coordinator.empty()) {
    throw Error(Code::invalid_argument,
                fmt::format("rank {} of {} does not know where rank 0 is: start the ranks with "
                            "hrun, or set HORA_COORDINATOR=host:port",
                            config.rank, config.size));
  }
  return config.rank == 0 ? meet_as_first(config, deadline) : meet_as_other(config, deadline);
}

}  // namespace hora
