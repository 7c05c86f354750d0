// SPDX-License-Identifier: Apache-2.0
#include "core/join/host_bootstrap.h"

#include "core/base/bytes.h"
#include "core/comm/world.h"
#include "core/join/job_id.h"
#include "core/join/listener.h"
#include "core/join/local_socket.h"
#include "core/join/secret.h"
#include "core/join/secret_file.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <thread>
#include <vector>

namespace hora {
namespace {

constexpr std::size_t kIntroductionBytes = 12;  // rank, size, pid; each four bytes, low ones first
constexpr std::size_t kReplyBytes = 1024;  // a code, a text, and if that is ok a port and a secret; zeros
constexpr std::size_t kMostReplyText = 900;
constexpr std::chrono::milliseconds kPauseBeforeNextTry{
    10};                                          // between tries to reach a rank 0 that is not there yet
constexpr std::chrono::seconds kSilenceLimit{5};  // with one who has connected and says nothing
constexpr std::chrono::seconds kLateAnswer{2};    // that rank 0 has to say whom it missed

struct Introduction {
  int rank = 0;
  int size = 0;
  int pid = 0;
};

Bytes encode(const Introduction& who) {
  Bytes bytes;
  for (const int value : {who.rank, who.size, who.pid}) {
    for (int i = 0; i < 4; ++i)
      bytes.push_back(static_cast<std::byte>(static_cast<unsigned>(value) >> (8 * i)));
  }
  return bytes;
}

Introduction decode_introduction(const Bytes& bytes) {
  const auto take = [&](std::size_t at) {
    unsigned value = 0;
    for (std::size_t i = 0; i < 4; ++i) value |= static_cast<unsigned>(bytes[at + i]) << (8 * i);
    return static_cast<int>(value);
  };
  return {take(0), take(4), take(8)};
}

/// How the bootstrap ended, and if it ended well, where rank 0 is. A value.
struct Answer {
  Status status;
  std::uint16_t port = 0;
  Secret secret{};
};

Bytes encode(const Answer& answer) {
  Writer out;
  out.u8(static_cast<std::uint8_t>(answer.status.code))
      .string(answer.status.message.substr(0, kMostReplyText));
  out.u64(answer.port).raw(std::as_bytes(std::span(answer.secret)));
  Bytes bytes = out.take();
  bytes.resize(kReplyBytes);
  return bytes;
}

Answer decode_answer(const Bytes& bytes) {
  Reader in(bytes);
  Answer answer;
  answer.status.code = in.enumerator<Code>(kCodes, "a code");
  answer.status.message = in.string(kMostReplyText);
  answer.port = static_cast<std::uint16_t>(in.below(1 << 16, "a port"));
  std::memcpy(answer.secret.data(), in.raw(answer.secret.size()).data(), answer.secret.size());
  return answer;
}

bool is_other_user(unsigned user) { return user != ::geteuid() && user != 0; }

Status late(const Config& config, const std::string& who) {
  return {
      Code::timeout,
      fmt::format("{} of this job of {} did not come within {:g} s: look whether it called init(); a longer "
                  "wait is HORA_START_TIMEOUT",
                  who, config.launcher, std::chrono::duration<double>(config.start_timeout).count())};
}

/// Whether the other end has closed, or broken off.
bool has_left(const Descriptor& socket) {
  std::byte byte{};
  const auto got = ::recv(socket.fd(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR);
}

/// Rank 0's side of one bootstrap.
class BootstrapServer {
 public:
  BootstrapServer(const Membership& membership, const Config& config, TimePoint deadline)
      : membership_(membership),
        config_(config),
        deadline_(deadline),
        peers_(static_cast<std::size_t>(membership.size)) {}

  /// Returns when all others are there.
  void await_all(const Descriptor& listener) {
    while (!missing().empty()) {
      if (Clock::now() >= deadline_) throw Error(late(config_, describe_ranks(missing())));
      if (!await_events(listener.fd(), POLLIN, deadline_)) continue;
      Descriptor socket(::accept4(listener.fd(), nullptr, nullptr, SOCK_CLOEXEC));
      if (!socket && (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS)) {
        throw Error(Code::unavailable,
                    fmt::format("rank 0 cannot let the other ranks in: {}", std::strerror(errno)));
      }
      if (socket && !is_other_user(user_of(socket))) admit(std::move(socket));
    }
  }

  void tell_all(const Answer& answer) const noexcept {
    const Bytes bytes = encode(answer);
    for (const auto& peer : peers_) tell(peer.socket, bytes);
    tell(odd_one_out_, bytes);
  }

 private:
  struct Peer {
    Descriptor socket;
    int pid = 0;
  };

  /// A rank that has come and gone is missing, too: it would not hear the answer.
  [[nodiscard]] std::vector<int> missing() const {
    std::vector<int> ranks;
    for (std::size_t rank = 1; rank < peers_.size(); ++rank) {
      const Descriptor& socket = peers_[rank].socket;
      if (!socket || has_left(socket)) ranks.push_back(static_cast<int>(rank));
    }
    return ranks;
  }

  void admit(Descriptor socket) {
    Bytes bytes(kIntroductionBytes);
    try {
      read_exactly(socket.fd(), bytes, std::min(deadline_, Clock::now() + kSilenceLimit));
    } catch (const Error&) {
      return;  // it went away; whether it comes again is seen here
    }
    const Introduction who = decode_introduction(bytes);
    const bool known = who.rank > 0 && who.rank < membership_.size;
    Status problem;
    if (who.size != membership_.size || !known) {
      problem = {Code::invalid_argument,
                 fmt::format("rank 0 was started by {} as one of {}, but pid {} as rank {} of {}",
                             config_.launcher, membership_.size, who.pid, who.rank, who.size)};
    } else if (auto& peer = peers_[static_cast<std::size_t>(who.rank)];
               peer.socket && !has_left(peer.socket)) {
      problem = {
          Code::invalid_argument,
          fmt::format("two processes joined this job of {} as rank {}: pid {} and pid {}; only the program "
                      "that {} starts can, not what that starts",
                      config_.launcher, who.rank, peer.pid, who.pid, config_.launcher)};
    } else {
      peer = {std::move(socket), who.pid};
      return;
    }
    odd_one_out_ = std::move(socket);
    throw Error(problem);
  }

  static void tell(const Descriptor& socket, const Bytes& bytes) noexcept {
    try {
      if (socket) write_all(socket.fd(), bytes, Clock::now() + std::chrono::seconds(1));
    } catch (const Error&) {
      return;  // it is gone: the others still must hear, and the job will name it
    }
  }

  const Membership& membership_;
  const Config& config_;
  TimePoint deadline_;
  std::vector<Peer> peers_;  // by rank
  Descriptor odd_one_out_;   // the rank that made the bootstrap fail
};

void adopt(Membership& membership, const Answer& answer) {
  membership.coordinator = fmt::format("127.0.0.1:{}", answer.port);
  membership.secret = answer.secret;
}

/// The user to whom the name belongs already; nothing if no process listens there any more.
std::optional<unsigned> owner_of_name(const std::string& name) {
  try {
    return user_of(connect_local(name));
  } catch (const Error&) {
    return std::nullopt;
  }
}

/// Others can guess a name that follows from the launcher's variables, and take it first.
Error taken_by(unsigned user, const Config& config) {
  const std::string remedy =
      config.secret_file.empty()
          ? fmt::format("; with HORA_SECRET_FILE the name cannot be guessed: {}", how_to_make_a_secret())
          : "";
  return Error(
      Code::unavailable,
      fmt::format("user {} has taken the local socket at which the ranks of this job of {} meet: end "
                  "that user's process, or start the job by another name or port{}",
                  user, config.launcher, remedy));
}

Descriptor listen_by_name(const Config& config, const std::string& name) {
  try {
    return listen_local(name);
  } catch (const Error& error) {
    if (const auto user = owner_of_name(name); user && is_other_user(*user)) throw taken_by(*user, config);
    throw Error(
        Code::unavailable,
        fmt::format("another process sits where the ranks of this job of {} meet: {}; only the program that "
                    "{} starts can join the job, not what that starts",
                    config.launcher, error.what(), config.launcher));
  }
}

Membership gather_as_first(Membership membership, const Config& config, const std::string& name,
                           TimePoint deadline) {
  const Descriptor listener = listen_by_name(config, name);
  BootstrapServer server(membership, config, deadline);
  try {
    server.await_all(listener);
    auto listener_of_rank_0 = std::make_shared<const Descriptor>(listen_on_loopback());
    if (!*listener_of_rank_0) {
      throw Error(Code::unavailable, fmt::format("rank 0 cannot listen on this host's loopback address: {}",
                                                 std::strerror(errno)));
    }
    const Answer answer{{}, port_of(*listener_of_rank_0), new_secret()};
    server.tell_all(answer);
    adopt(membership, answer);
    membership.listener = std::move(listener_of_rank_0);
    return membership;
  } catch (const Error& error) {
    server.tell_all({error.status(), 0, {}});
    throw;
  }
}

/// Rank 0's answer. Throws Error(unavailable) if it breaks off.
Answer introduce(const Membership& membership, const Config& config, const Descriptor& socket,
                 TimePoint deadline) {
  write_all(socket.fd(), encode(Introduction{membership.rank, membership.size, ::getpid()}), deadline);
  Bytes bytes(kReplyBytes);
  try {
    // Rank 0 may have come later, and knows who is missing.
    read_exactly(socket.fd(), bytes, Clock::now() + config.start_timeout + kLateAnswer);
  } catch (const Error& error) {
    if (error.code() == Code::timeout) throw Error(late(config, "rank 0"));
    throw;
  }
  return decode_answer(bytes);
}

/// One try: nothing if rank 0 is not there, or breaks off.
std::optional<Answer> try_to_ask(const Membership& membership, const Config& config, const std::string& name,
                                 TimePoint deadline) {
  unsigned user = 0;
  try {
    const Descriptor socket = connect_local(name);
    user = user_of(socket);
    if (!is_other_user(user)) return introduce(membership, config, socket, deadline);
  } catch (const Error& error) {
    if (error.code() != Code::unavailable) throw;
    return std::nullopt;
  }
  throw taken_by(user, config);
}

Membership gather_as_other(Membership membership, const Config& config, const std::string& name,
                           TimePoint deadline) {
  while (Clock::now() < deadline) {
    if (const auto answer = try_to_ask(membership, config, name, deadline)) {
      if (!answer->status.ok()) throw Error(answer->status);
      adopt(membership, *answer);
      return membership;
    }
    std::this_thread::sleep_for(kPauseBeforeNextTry);
  }
  throw Error(late(config, "rank 0"));
}

/// Its name.
std::string socket_of(const Config& config) {
  if (config.secret_file.empty()) return config.meeting_place;
  const Secret secret = secret_from_file(config.secret_file, config.job);
  return fmt::format("hora.{}.{}", ::geteuid(),
                     digits_of(secret, "where the ranks of a job of Hora meet", 32));
}

}  // namespace

Membership bootstrap_on_host(Membership membership, const Config& config, TimePoint deadline) {
  const std::string name = socket_of(config);
  return membership.rank == 0 ? gather_as_first(std::move(membership), config, name, deadline)
                              : gather_as_other(std::move(membership), config, name, deadline);
}

}  // namespace hora
