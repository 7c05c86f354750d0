// SPDX-License-Identifier: Apache-2.0
#include "runner/launch/local_ranks.h"

#include "core/base/cores.h"
#include "core/join/network.h"
#include "runner/launch/binding.h"
#include "runner/launch/environment.h"
#include "runner/launch/guard.h"
#include "runner/launch/member_line.h"
#include "runner/launch/reserved_listener.h"
#include "runner/launch/reserved_port.h"
#include "runner/streams/rank_inputs.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <deque>
#include <optional>
#include <utility>

namespace hora::hrun {
namespace {

constexpr int kMostUnasked = 64;  // answers, of a rank that has not been asked
constexpr int kAnswersToOne = 2;  // question
constexpr int kMostHeld = 4096;   // messages that a socket can hold, and more

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
  Descriptor ours;
  Descriptor theirs;
};

/// The line on which a rank is asked, until one of its ends is closed.
struct Questioning {
  Descriptor line;
  int credit = kMostUnasked;  ///< how many answers are still taken
};

/// The lines between hrun and a rank, before the rank is started.
struct RankLines {
  explicit RankLines(bool elastic) {
    if (elastic) {
      member.emplace();
    } else {
      news.emplace();
    }
  }
  void go_into(ProcessPlan& plan, RankFacts& facts) const {
    const auto give = [&](const RankLine& line) {
      plan.inherited.push_back(line.theirs.fd());
      return line.theirs.fd();
    };
    if (news) facts.news_fd = give(*news);
    facts.question_fd = give(questions);
    if (member) facts.member_fd = give(*member);
  }
  std::optional<RankLine> news;  ///< on which the rank hears of the ends of others
  RankLine questions;
  std::optional<RankLine> member;  ///< of a rank of an elastic job
};

/// A rank and its process group, which may outlive the process that leads it: a wrapper script's children,
/// for one. The group's number cannot become another's as long as somebody is in it; then it must not be
/// used.
struct Rank {
  Rank(int process, Descriptor output_pipe, Descriptor errors_pipe, RankLines lines)
      : pid(process),
        output(std::move(output_pipe)),
        errors(std::move(errors_pipe)),
        questions{std::move(lines.questions.ours)} {
    if (lines.news) news = std::move(lines.news->ours);
    if (lines.member) member = MemberLine(std::move(lines.member->ours));
  }
  int pid;
  bool running = true;  ///< the leader has not been reaped
  bool left = true;     ///< the group may have somebody in it
  PipeSource output;
  PipeSource errors;
  Descriptor news;
  Questioning questions;
  MemberLine member;
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

/// The sockets that the host of rank 0 keeps until its ranks run, or for as long as they do.
struct Front {
  explicit Front(const HostPlan& plan) : listener(std::in_place, plan.alone, plan.network) {}
  std::optional<ReservedListener> listener;
  ReservedPort master_port;
};

Descriptor make_epoll() {
  Descriptor epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll) fail("cannot make an epoll instance");
  return epoll;
}

class LocalRanks final : public HostRanks {
 public:
  explicit LocalRanks(const HostPlan& plan)
      : plan_(plan), bindings_(bind_ranks_here(plan.bind_to, ranks_of(plan))) {
    for (const auto& binding : bindings_) ready_.bindings.push_back(describe(binding));
    if (plan.bind_to != BindTo::none && bindings_.empty())
      ready_.unbound = nothing_bound(plan.bind_to, ranks_of(plan));
    const bool first = plan.placements.front().rank == 0;
    if (first || plan.elastic)
      ready_.addresses = plan.alone ? std::vector<std::string>{"127.0.0.1"} : own_addresses(plan.network);
    if (!first) return;
    front_.emplace(plan);
    ready_.port = front_->listener->port();
    ready_.master_port = front_->master_port.number();
  }

  ~LocalRanks() override { signal_all(SIGKILL); }
  LocalRanks(const LocalRanks&) = delete;
  LocalRanks& operator=(const LocalRanks&) = delete;

  [[nodiscard]] State state() const override {
    if (!started_) return State::ready;
    return left_ > 0 ? State::running : State::over;
  }
  [[nodiscard]] const std::string& trouble() const override {
    static const std::string none;  // this host is always ready
    return none;
  }
  [[nodiscard]] const Ready& ready() const override { return ready_; }

  void start(const RendezvousPoint& rendezvous) override {
    started_ = true;
    for (const auto& placement : plan_.placements) start_one(placement, rendezvous);
    if (front_) front_->listener.reset();
  }

  void interrupt() override { tell_to_end(SIGINT); }
  void terminate() override { tell_to_end(SIGTERM); }

  void tell(const RankEnd& end) override {
    const Bytes message = encode(end);
    for (const auto& rank : ranks_)
      ::send(rank.news.fd(), message.data(), message.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  }

  void part() override {}  // they are children of this process
  void kill() override {
    killed_ = true;
    signal_all(SIGKILL);
    for (auto& rank : ranks_) {
      if (rank.left && !rank.running) release(rank);
    }
  }

  void kill_one(int index) override { kill_group(ranks_.at(static_cast<std::size_t>(index))); }

  void send(int index, const elastic::LeaderMessage& message) override {
    Rank& rank = ranks_.at(static_cast<std::size_t>(index));
    rank.member.send(message);
    end_if_broken(rank);
  }

  void ask(const Question& question) override {
    const Bytes message = encode(question);
    for (auto& rank : ranks_) {
      if (!rank.questions.line) continue;
      rank.questions.credit = std::min(kMostUnasked, rank.questions.credit + kAnswersToOne);
      say(rank.questions.line.fd(), message);
    }
  }

  [[nodiscard]] std::size_t room() const override { return inputs_.room(); }
  void feed(std::string_view bytes) override { inputs_.give(bytes); }
  void resize(WindowSize size) override { inputs_.resize(size); }

  void watch(std::vector<pollfd>& events) const override {
    events.push_back({answers_.fd(), POLLIN, 0});
    inputs_.watch(events);
    for (const auto& rank : ranks_) rank.member.watch(events);
  }
  [[nodiscard]] TimePoint next() const override {
    return events_.empty() ? TimePoint::max() : TimePoint::min();
  }

  void child_changed(int pid, int wait_status, TimePoint now) override {
    const auto found = std::find_if(ranks_.begin(), ranks_.end(),
                                    [&](const Rank& rank) { return rank.running && rank.pid == pid; });
    RankEvent event;
    event.index = static_cast<int>(found - ranks_.begin());
    event.when = now;
    if (WIFSTOPPED(wait_status)) {
      event.kind = RankEvent::Kind::stopped;
      event.ending = describe_stop(WSTOPSIG(wait_status));
    } else if (WIFCONTINUED(wait_status)) {
      event.kind = RankEvent::Kind::resumed;
    } else {
      look_for_empty_groups_ = true;
      event.kind = RankEvent::Kind::ended;
      event.ending = describe_ending(wait_status);
    }
    if (found == ranks_.end()) return;
    if (event.kind == RankEvent::Kind::ended) {
      found->running = false;
      while (take_answer(event.index)) {  // what it said before
      }
      for (int i = 0; i < kMostHeld && take_message(event.index); ++i) {
      }
      if (found->member.broken()) event.ending.how = "was ended by hrun: " + found->member.trouble();
      found->member.close();
      // Processes that were told to end have time for it, also without a leader. Else they are what an ended
      // rank left behind.
      if (!told_to_end_ || killed_) kill_group(*found);
    }
    events_.push_back(event);
  }

  std::vector<RankEvent> turn(TimePoint /*now*/) override {
    if (std::exchange(look_for_empty_groups_, false)) {
      for (auto& rank : ranks_) {
        if (rank.left && !rank.running && ::kill(-rank.pid, 0) != 0 && errno == ESRCH) release(rank);
      }
    }
    take_answers();
    for (auto& rank : ranks_) {
      rank.member.flush();
      end_if_broken(rank);
    }
    inputs_.move();
    return std::exchange(events_, {});
  }

  [[nodiscard]] OutputSource& output(int index) override {
    return ranks_.at(static_cast<std::size_t>(index)).output;
  }
  [[nodiscard]] OutputSource& errors(int index) override {
    return ranks_.at(static_cast<std::size_t>(index)).errors;
  }

 private:
  static int ranks_of(const HostPlan& plan) { return static_cast<int>(plan.placements.size()); }

  void start_one(const RankPlacement& placement, const RendezvousPoint& rendezvous) {
    const Descriptor pipe = secret_pipe(plan_.secret);
    RankLines lines(plan_.elastic);
    RankFacts facts;
    facts.placement = placement;
    facts.coordinator = rendezvous.coordinator;
    facts.secret_fd = pipe.fd();
    facts.master_address = rendezvous.master_address;
    facts.master_port = rendezvous.master_port;
    facts.threads = std::max(1, std::min(count_cores(usable_cores()), core_quota()) / placement.local_size);
    facts.terminal = plan_.terminal;
    ProcessPlan plan;
    plan.command = plan_.command;
    plan.inherited = {pipe.fd()};
    lines.go_into(plan, facts);
    if (!bindings_.empty()) {
      const Binding& binding = bindings_.at(ranks_.size());
      plan.cpus = binding.cpus;
      facts.threads = binding.cores;
    }
    plan.announce = guard_.fd();
    plan.errors_variable = "HORA_STDERR";
    ItsInput input(reads(placement) ? plan_.input : InputKind::nothing, plan_.window);
    input.go_into(plan);
    if (placement.rank == 0) {
      facts.coordinator_fd = front_->listener->fd();
      plan.inherited.push_back(front_->listener->fd());
    }
    plan.environment = rank_environment(plan_.environment, plan_.horovod_folder, facts);
    Process process = hrun::start(plan);
    ++left_;
    input.join(inputs_);
    ranks_.emplace_back(process.pid, input.output_of(process), std::move(process.errors), std::move(lines));
    hear_from(static_cast<int>(ranks_.size()) - 1);
    RankEvent event;
    event.index = static_cast<int>(ranks_.size()) - 1;
    event.pid = process.pid;
    events_.push_back(event);
  }

  [[nodiscard]] bool reads(const RankPlacement& placement) const {
    return plan_.reader == kEveryRank || plan_.reader == placement.rank;
  }

  void hear_from(int index) {
    const Rank& rank = ranks_[static_cast<std::size_t>(index)];
    hear_on(rank.questions.line.fd(), 2 * index);
    if (rank.member.is_open()) hear_on(rank.member.fd(), 2 * index + 1);
  }

  void hear_on(int line, int number) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u32 = static_cast<std::uint32_t>(number);
    if (::epoll_ctl(answers_.fd(), EPOLL_CTL_ADD, line, &event) != 0) fail("cannot hear what a rank answers");
  }

  void take_answers() {
    std::vector<epoll_event> ready(2 *
                                   ranks_.size());  // of each line one message, so that others get their turn
    if (ready.empty()) return;
    const int count = ::epoll_wait(answers_.fd(), ready.data(), static_cast<int>(ready.size()), 0);
    for (int i = 0; i < count; ++i) {
      const int number = static_cast<int>(ready[static_cast<std::size_t>(i)].data.u32);
      if (number % 2 == 0) {
        take_answer(number / 2);
      } else {
        take_message(number / 2);
      }
    }
  }

  /// A line that ends, or on which comes what no rank would say, is closed. Whether there was an answer.
  bool take_answer(int index) {
    Questioning& from = ranks_[static_cast<std::size_t>(index)].questions;
    const auto got = receive_whole(from.line.fd(), answer_);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return false;
    try {
      RankEvent event;
      event.kind = RankEvent::Kind::answered;
      event.index = index;
      event.answer = decode_reply(std::span(answer_).first(got > 0 ? static_cast<std::size_t>(got) : 0));
      if (from.credit-- == 0) throw Error(Code::internal, "answers to no question");
      events_.push_back(std::move(event));
      return true;
    } catch (const Error&) {
      from.line = Descriptor();
      return false;
    }
  }

  /// Whether a message of an elastic job was there.
  bool take_message(int index) {
    Rank& rank = ranks_[static_cast<std::size_t>(index)];
    auto message = rank.member.receive(answer_);
    end_if_broken(rank);
    if (!message) return false;
    events_.push_back({.kind = RankEvent::Kind::told, .index = index, .message = *std::move(message)});
    return true;
  }

  void end_if_broken(Rank& rank) {
    if (rank.member.broken()) kill_group(rank);
  }

  void kill_group(Rank& rank) {
    if (!rank.left) return;
    ::kill(-rank.pid, SIGKILL);
    if (!rank.running) release(rank);
  }

  void release(Rank& rank) {
    rank.left = false;
    --left_;
    guard_.forget(rank.pid);
  }

  void tell_to_end(int signal) {
    told_to_end_ = true;
    signal_all(signal);
    signal_all(SIGCONT);  // one that is stopped would not hear that
  }

  void signal_all(int signal) {
    for (const auto& rank : ranks_) {
      if (rank.left) ::kill(-rank.pid, signal);
    }
  }

  const HostPlan plan_;
  const std::vector<Binding> bindings_;  // of the ranks, in order; empty: none is bound
  Guard guard_;
  const Descriptor answers_{make_epoll()};  // of all lines on which ranks are asked
  Bytes answer_ = Bytes(kMostReplyBytes);
  std::optional<Front> front_;
  Ready ready_;
  std::deque<Rank> ranks_;
  RankInputs inputs_;
  int left_ = 0;  // ranks whose group may have somebody in it
  std::vector<RankEvent> events_;
  bool started_ = false;
  bool told_to_end_ = false;
  bool killed_ = false;
  bool look_for_empty_groups_ = false;
};

}  // namespace

std::unique_ptr<HostRanks> make_local_ranks(const HostPlan& plan) {
  return std::make_unique<LocalRanks>(plan);
}

}  // namespace hora::hrun
