// SPDX-License-Identifier: Apache-2.0
#include "runner/launch/local_rank.h"

#include "core/base/cores.h"
#include "runner/launch/environment.h"
#include "runner/launch/process.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <utility>

namespace hora::hrun {
namespace {

constexpr int kMostUnasked = 64;  // replies, of a rank that has not been asked
constexpr int kRepliesToOne = 2;  // question

/// A pipe that holds the secret, to be read once.
Descriptor secret_pipe(const Secret& secret) {
  Pipe pipe = make_pipe();
  if (::write(pipe.write.fd(), secret.data(), secret.size()) != static_cast<ssize_t>(secret.size()))
    fail("cannot fill a pipe");
  return std::move(pipe.read);
}

/// A pair of sockets between hrun and a rank: our end, which nothing blocks, and the one that the rank
/// inherits.
struct RankLine {
  RankLine() {
    std::array<int, 2> ends{};
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0)
      fail("cannot make a pair of sockets");
    ours = Descriptor(ends[0]);
    theirs = Descriptor(ends[1]);
  }
  int go_into(ProcessPlan& plan) const {
    plan.inherited.push_back(theirs.fd());
    return theirs.fd();
  }
  Descriptor ours;
  Descriptor theirs;
};

Descriptor duplicate_of(const Descriptor& one) {
  Descriptor other(::fcntl(one.fd(), F_DUPFD_CLOEXEC, 0));
  if (!other) fail("cannot use a descriptor twice");
  return other;
}

/// The input of a rank, from before its start until it has it.
class ItsInput {
 public:
  ItsInput(InputKind kind, WindowSize window) : kind_(kind) {
    if (kind == InputKind::piped) pipe_ = make_pipe();
    if (kind == InputKind::terminal) terminal_ = make_terminal(window);
  }
  void go_into(ProcessPlan& plan) const {
    if (kind_ == InputKind::inherited) plan.input = STDIN_FILENO;
    if (kind_ == InputKind::piped) plan.input = pipe_.read.fd();
    if (kind_ == InputKind::terminal) plan.terminal = terminal_.slave.fd();
  }
  /// The rank has it, and from here on gets what is for all who read.
  void join(RankInputs& inputs) {
    if (kind_ == InputKind::piped) inputs.add(std::move(pipe_.write));
    if (kind_ == InputKind::terminal) inputs.add(duplicate_of(terminal_.master));
  }
  /// Where the rank's output is read.
  Descriptor output_of(Process& process) {
    return std::move(kind_ == InputKind::terminal ? terminal_.master : process.output);
  }

 private:
  const InputKind kind_;
  Pipe pipe_;
  PseudoTerminal terminal_;
};

/// A process that replaces another one has no input: the first one has read some of it.
InputKind input_of(const RankStart& start) {
  const HostPlan& plan = start.plan;
  const bool reads = plan.reader == kEveryRank || plan.reader == start.placement.rank;
  return reads && !start.late ? plan.input : InputKind::nothing;
}

void hear(int epoll, int socket, int number) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u32 = static_cast<std::uint32_t>(number);
  if (::epoll_ctl(epoll, EPOLL_CTL_ADD, socket, &event) != 0) fail("cannot hear what a rank replies");
}

}  // namespace

LocalRank::LocalRank(const RankStart& start, Guard& guard, RankInputs& inputs) : guard_(guard) {
  const HostPlan& host = start.plan;
  const Descriptor pipe = secret_pipe(host.secret);
  RankLine line;  // the end of the member's line, or that of news
  RankLine questions;
  ProcessPlan plan;
  plan.command = host.command;
  plan.inherited = {pipe.fd()};
  plan.announce = guard.fd();
  plan.errors_variable = "HORA_STDERR";
  RankFacts facts;
  facts.placement = start.placement;
  facts.coordinator = start.rendezvous.coordinator;
  facts.coordinator_fd = start.listener;
  facts.secret_fd = pipe.fd();
  facts.master_address = start.rendezvous.master_address;
  facts.master_port = start.rendezvous.master_port;
  facts.threads =
      std::max(1, std::min(count_cores(usable_cores()), core_quota()) / start.placement.local_size);
  facts.terminal = host.terminal;
  facts.question_fd = questions.go_into(plan);
  (host.elastic ? facts.member_fd : facts.news_fd) = line.go_into(plan);
  facts.member = start.member;
  if (host.elastic) {
    life_ = std::make_shared<LifeMutex>();
    facts.life_fd = life_->file();
    plan.inherited.push_back(facts.life_fd);
  }
  facts.late = start.late;
  if (start.binding != nullptr) {
    plan.cpus = start.binding->cpus;
    facts.threads = start.binding->cores;
  }
  if (start.listener >= 0) plan.inherited.push_back(start.listener);
  ItsInput input(input_of(start), host.window);
  input.go_into(plan);
  plan.environment = rank_environment(host.environment, host.horovod_folder, facts);
  Process process = hrun::start(plan);
  pid_ = process.pid;
  input.join(inputs);
  output_ = std::make_shared<PipeSource>(input.output_of(process));
  errors_ = std::make_shared<PipeSource>(std::move(process.errors));
  questions_ = {std::move(questions.ours), kMostUnasked};
  if (host.elastic) {
    member_ = MemberLine(std::move(line.ours));
  } else {
    news_ = std::move(line.ours);
  }
}

void LocalRank::hear_on(int epoll, int index) const {
  hear(epoll, questions_.line.fd(), 2 * index);
  if (member_.is_open()) hear(epoll, member_.fd(), 2 * index + 1);
}

void LocalRank::tell(const Bytes& end) const {
  ::send(news_.fd(), end.data(), end.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
}

void LocalRank::ask(const Bytes& question) {
  if (!questions_.line) return;
  questions_.credit = std::min(kMostUnasked, questions_.credit + kRepliesToOne);
  say(questions_.line.fd(), question);
}

void LocalRank::send(const elastic::LeaderMessage& message) {
  member_.send(message);
  kill_if_broken();
}

void LocalRank::flush() {
  member_.flush();
  kill_if_broken();
}

std::optional<Reply> LocalRank::take_reply(std::span<std::byte> space) {
  const auto got = receive_whole(questions_.line.fd(), space);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return std::nullopt;
  try {
    Reply reply = decode_reply(space.first(got > 0 ? static_cast<std::size_t>(got) : 0));
    if (questions_.credit-- == 0) throw Error(Code::internal, "replies to no question");
    return reply;
  } catch (const Error&) {
    questions_.line = Descriptor();
    return std::nullopt;
  }
}

std::optional<elastic::MemberMessage> LocalRank::take_message(std::span<std::byte> space) {
  auto message = member_.receive(space);
  kill_if_broken();
  return message;
}

void LocalRank::signal(int number) const {
  if (left_) ::kill(-pid_, number);
}

void LocalRank::kill() {
  if (!left_) return;
  ::kill(-pid_, SIGKILL);
  killed_ = true;
  if (!running_) release();
}

std::string LocalRank::end() {
  ending_ = true;
  std::string trouble = member_.trouble();
  member_.close();
  return trouble;
}

void LocalRank::reaped() {
  running_ = false;
  if (killed_) release();
}

void LocalRank::look_if_left() {
  if (left_ && !running_ && ::kill(-pid_, 0) != 0 && errno == ESRCH) release();
}

void LocalRank::kill_if_broken() {
  if (member_.broken()) kill();
}

void LocalRank::release() {
  left_ = false;
  guard_.forget(pid_);
}

}  // namespace hora::hrun
