// SPDX-License-Identifier: Apache-2.0
#include "runner/job.h"

#include "core/comm/control.h"
#include "runner/binding.h"
#include "runner/culprit.h"
#include "runner/environment.h"
#include "runner/guard.h"
#include "runner/process.h"
#include "runner/relay.h"
#include "runner/reserved_port.h"

#include <hora/config.h>

#include <arpa/inet.h>
#include <fmt/format.h>
#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>
#include <vector>

namespace hora {
namespace {

constexpr int kTimedOut = 124;
constexpr std::chrono::seconds kLastWords{1};  // for what ranks wrote before they were killed
constexpr int kAny = -1;                       // as waitpid() takes it

/// Rank 0's socket is made here, so that no other program can take its port between the choice and the use.
struct Door {
  Door() : socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in where{};
    where.sin_family = AF_INET;
    where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof where;
    auto* any = reinterpret_cast<sockaddr*>(&where);
    if (::bind(socket.fd(), any, length) != 0 || ::listen(socket.fd(), SOMAXCONN) != 0 ||
        ::getsockname(socket.fd(), any, &length) != 0) {
      fail("cannot listen on 127.0.0.1");
    }
    address = fmt::format("127.0.0.1:{}", ntohs(where.sin_port));
  }
  Descriptor socket;
  std::string address;
};

/// A pipe that holds the secret, to be read once.
Descriptor secret_pipe(const Secret& secret) {
  Pipe pipe = make_pipe();
  if (::write(pipe.write.fd(), secret.data(), secret.size()) != static_cast<ssize_t>(secret.size()))
    fail("cannot fill a pipe");
  return std::move(pipe.read);
}

int usable_cores() {
  cpu_set_t set;
  return ::sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

/// A rank and its process group, which may outlive the process that leads it: a wrapper script's children,
/// for one. The group's number cannot become another's as long as somebody is in it; then it must not be
/// used.
struct Rank {
  int pid = 0;
  bool running = true;  ///< the leader has not been reaped
  bool left = true;     ///< the group may have somebody in it
};

/// One run. Everything happens in one thread, which waits in poll() for output to read and to write, for
/// signals (children's ends among them) and for the next deadline, and nowhere else.
class Job {
 public:
  explicit Job(const Options& options) : options_(options), relay_(options) {}

  int run() {
    block_signals();
    adopt_orphans();
    if (options_.timeout) deadline_ = timeout_ = Clock::now() + *options_.timeout;
    choose_bindings();
    start_all();
    while (left_ > 0) turn();
    finish();
    return exit_code();
  }

 private:
  static bool is_ignored(int signal) {
    struct sigaction found {};
    return ::sigaction(signal, nullptr, &found) == 0 && found.sa_handler == SIG_IGN;
  }

  void block_signals() {
    ::signal(SIGCHLD, SIG_DFL);  // ignored, as some parents leave it, no end of a rank would be told
    sigset_t set;
    ::sigemptyset(&set);
    for (const int signal : {SIGINT, SIGTERM, SIGCHLD}) ::sigaddset(&set, signal);
    if (!is_ignored(SIGHUP)) ::sigaddset(&set, SIGHUP);  // nohup: whoever asked for that means it
    ::sigprocmask(SIG_BLOCK, &set, nullptr);
    ::signal(SIGPIPE, SIG_IGN);
    signals_ = Descriptor(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
    if (!signals_) fail("cannot watch signals");
  }

  /// What a rank leaves behind is reaped here: elsewhere nobody may, and the group would never look empty.
  static void adopt_orphans() { ::prctl(PR_SET_CHILD_SUBREAPER, 1); }

  // --- starting ---

  void choose_bindings() {
    bindings_ = bind_ranks_here(options_.bind_to, options_.ranks);
    if (options_.bind_to != BindTo::none && bindings_.empty())
      print(fmt::format("hrun: {}\n", nothing_bound(options_.bind_to, options_.ranks)));
  }

  void start_all() {
    const Door door;
    Secret secret;
    if (::getrandom(secret.data(), secret.size(), 0) != static_cast<ssize_t>(secret.size()))
      fail("no random numbers");
    try {
      for (int rank = 0; rank < options_.ranks; ++rank) start_one(rank, door, secret);
    } catch (const Error&) {
      kill_all(SIGKILL);
      throw;
    }
  }

  void start_one(int rank, const Door& door, const Secret& secret) {
    const Descriptor pipe = secret_pipe(secret);
    RankFacts facts;
    facts.rank = rank;
    facts.size = options_.ranks;
    facts.coordinator = door.address;
    facts.secret_fd = pipe.fd();
    facts.master_port = master_port_.number();
    facts.threads = std::max(1, usable_cores() / options_.ranks);
    facts.terminal = ::isatty(STDOUT_FILENO) == 1;
    ProcessPlan plan;
    plan.command = options_.command;
    plan.inherited = {pipe.fd()};
    // Only rank 0 reads hrun's input; not from a terminal, which stops groups in the background that read
    // from it.
    plan.null_input = rank != 0 || ::isatty(STDIN_FILENO) == 1;
    if (rank == 0) {
      facts.coordinator_fd = door.socket.fd();
      plan.inherited.push_back(door.socket.fd());
    }
    std::string where = "not bound";
    if (!bindings_.empty()) {
      const Binding& binding = bindings_[static_cast<std::size_t>(rank)];
      plan.cpus = binding.cpus;
      facts.threads = binding.cores;
      where = "bound to " + describe(binding);
    }
    plan.environment = rank_environment(own_environment(), options_, facts);
    Process process = hora::start(plan);
    guard_.watch(process.pid);
    ++left_;
    ranks_.push_back({process.pid});
    relay_.add(process);
    say(fmt::format("rank {} is process {}", rank, process.pid));
    if (options_.report_bindings || options_.verbose)
      print(fmt::format("hrun: rank {} is {}\n", rank, where));
  }

  // --- one turn ---

  void turn() {
    std::vector<pollfd> events{{signals_.fd(), POLLIN, 0}};
    relay_.watch(events);
    ::poll(events.data(), events.size(), milliseconds_until(deadline_));
    pass_output();
    take_signals();
    if (Clock::now() >= deadline_) pass_deadline();
  }

  void pass_output() {
    if (!relay_.move()) reader_gone();
  }

  /// The ranks are gone, and what they wrote is still to be read and written. However slow the reader is, it
  /// gets everything, unless hrun is told to end or its time is over. The report does not wait for a reader
  /// of stdout.
  void finish() {
    relay_.ranks_have_ended();
    if (signal_ == 0 && !timed_out_) deadline_ = timeout_;
    pass_output();
    while (!given_up_ && !relay_.errors_read()) turn();
    report();
    while (!given_up_ && !relay_.done()) turn();
  }

  void take_signals() {
    signalfd_siginfo info{};
    while (::read(signals_.fd(), &info, sizeof info) == sizeof info) {
      if (info.ssi_signo == SIGCHLD) {
        // One signal may stand for many ends, and names the first; wait() takes the others in any order.
        reap(static_cast<int>(info.ssi_pid));
        while (reap(kAny)) {
        }
        look_for_empty_groups();
      } else {
        told_to_end(static_cast<int>(info.ssi_signo));
      }
    }
  }

  /// Whether a child has ended.
  bool reap(int child) {
    int status = 0;
    const pid_t pid = ::waitpid(child, &status, WNOHANG);
    for (std::size_t i = 0; pid > 0 && i < ranks_.size(); ++i) {
      if (ranks_[i].running && ranks_[i].pid == pid) ended(static_cast<int>(i), describe_ending(status));
    }
    return pid > 0;
  }

  void ended(int number, const Ending& ending) {
    Rank& rank = ranks_[static_cast<std::size_t>(number)];
    rank.running = false;
    say(fmt::format("rank {} {}", number, ending.how));
    if (!terminated_) endings_.emplace_back(number, ending);
    // Who was told to end has time for it, also without a leader. Else it is what an ended rank left behind.
    if (!terminated_ || killed_) kill_rest(rank);
    if (ending.exit_code == 0 || terminated_) return;
    const TimePoint now = Clock::now();
    if (!culprit_.accuse(number, ending, now)) return;
    if (left_ > 0) say(fmt::format("the others have {} s to end by themselves", grace_seconds()));
    deadline_ = std::min(deadline_, now + options_.grace);
  }

  void look_for_empty_groups() {
    for (auto& rank : ranks_) {
      if (rank.left && !rank.running && ::kill(-rank.pid, 0) != 0 && errno == ESRCH) release(rank);
    }
  }

  void kill_rest(Rank& rank) {
    ::kill(-rank.pid, SIGKILL);
    release(rank);
  }

  void release(Rank& rank) {
    rank.left = false;
    --left_;
    guard_.forget(rank.pid);
  }

  // --- ending ---

  /// The next step of ending the job: first TERM, then KILL, then giving up what nobody reads.
  void pass_deadline() {
    if (!culprit_.known() && signal_ == 0 && !timed_out_) {
      timed_out_ = true;
      print(fmt::format("hrun: the job did not end within {} s (--timeout)\n",
                        std::chrono::duration<double>(*options_.timeout).count()));
    }
    if (left_ == 0 || killed_) {
      give_up();
    } else if (terminated_) {
      kill_now();
    } else {
      terminate();
    }
  }

  void told_to_end(int signal) {
    if (signal_ != 0 || left_ == 0) {  // a second Ctrl-C, or nobody left who could need time
      kill_now();
      give_up();
    }
    if (signal_ != 0) return;
    signal_ = signal;
    say(fmt::format("{}: ending all ranks", ::strsignal(signal)));
    terminate();
  }

  /// Nobody reads hrun's output any more, as after `| head`. That is told at every write; and after a Ctrl-C
  /// the reader ends, too. It never is a second Ctrl-C.
  void reader_gone() {
    if (signal_ != 0) return;
    signal_ = SIGPIPE;
    say("nobody reads the output any more: ending all ranks");
    terminate();
  }

  void terminate() {
    if (terminated_) return;
    terminated_ = true;
    kill_all(SIGTERM);
    deadline_ = Clock::now() + options_.grace;
  }

  void kill_now() {
    killed_ = true;
    kill_all(SIGKILL);
    for (auto& rank : ranks_) {
      if (rank.left && !rank.running) release(rank);
    }
    deadline_ = Clock::now() + kLastWords;
  }

  /// What has not been written by now never will be.
  void give_up() {
    given_up_ = true;
    deadline_ = TimePoint::max();
  }

  void kill_all(int signal) {
    for (const auto& rank : ranks_) {
      if (rank.left) ::kill(-rank.pid, signal);
    }
  }

  // --- talking ---

  [[nodiscard]] double grace_seconds() const { return std::chrono::duration<double>(options_.grace).count(); }

  void say(const std::string& what) {
    if (options_.verbose) print(fmt::format("hrun: {}\n", what));
  }

  void print(const std::string& text) { relay_.print(text); }

  void report() {
    if (!culprit_.known()) return;
    std::string text =
        fmt::format("\nhrun: rank {} (pid {}) failed first: it {}\n", culprit_.rank(),
                    ranks_[static_cast<std::size_t>(culprit_.rank())].pid, culprit_.ending().how);
    text += describe_other_endings();
    const auto& last = relay_.last_errors(culprit_.rank());
    if (!last.empty()) text += "hrun: the last it wrote to stderr:\n";
    for (const auto& line : last) text += "  " + line + "\n";
    print(text);
  }

  /// What else ended by itself: a rank that was done too early, and those that failed in turn.
  [[nodiscard]] std::string describe_other_endings() const {
    constexpr std::size_t kMost = 8;
    std::string text;
    std::size_t told = 0;
    for (const auto& [rank, ending] : endings_) {
      if (rank == culprit_.rank()) continue;
      if (++told > kMost) continue;
      text += fmt::format("hrun: rank {} {}\n", rank, ending.how);
    }
    if (told > kMost) text += fmt::format("hrun: and {} more ended by themselves\n", told - kMost);
    return text;
  }

  [[nodiscard]] int exit_code() const {
    if (culprit_.known()) return culprit_.ending().exit_code;
    if (timed_out_) return kTimedOut;
    return signal_ != 0 ? 128 + signal_ : 0;
  }

  const Options& options_;
  const ReservedPort master_port_;
  std::vector<Binding> bindings_;  // of the ranks; empty: none is bound
  Guard guard_;
  Descriptor signals_;
  Relay relay_;
  std::vector<Rank> ranks_;
  int left_ = 0;  // ranks whose group may have somebody in it

  TimePoint timeout_ = TimePoint::max();
  TimePoint deadline_ = TimePoint::max();  // of the next step: the time-out, TERM, KILL, giving up
  bool terminated_ = false;
  bool killed_ = false;
  bool given_up_ = false;
  bool timed_out_ = false;
  int signal_ = 0;  // that told hrun to end
  Culprit culprit_;
  std::vector<std::pair<int, Ending>> endings_;  // of the ranks that were not told to end, in order
};

}  // namespace

int run_job(const Options& options) { return Job(options).run(); }

}  // namespace hora
