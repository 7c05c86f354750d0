// SPDX-License-Identifier: Apache-2.0
#include "runner/launch/job.h"

#include "core/base/machine.h"
#include "core/join/job_id.h"
#include "runner/launch/environment.h"
#include "runner/launch/local_ranks.h"
#include "runner/launch/remote_ranks.h"
#include "runner/launch/signals.h"
#include "runner/launch/this_host.h"
#include "runner/observe/end_reports.h"
#include "runner/observe/root_cause.h"
#include "runner/observe/status_service.h"
#include "runner/observe/summary.h"
#include "runner/streams/relay.h"
#include "runner/streams/standard_input.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

namespace hora::hrun {
namespace {

constexpr int kTimedOut = 124;
constexpr int kOutputLost = 1;
constexpr std::chrono::seconds kLastWords{1};  // for what ranks wrote before they were killed

Secret make_secret() {
  Secret secret;
  if (::getrandom(secret.data(), secret.size(), 0) != static_cast<ssize_t>(secret.size()))
    fail("no random numbers");
  return secret;
}

/// One run. Everything happens in one thread, which waits in poll() for output to read and to write, for
/// signals (children's ends among them), for other hosts and for the next deadline, and nowhere else.
class Job {
 public:
  explicit Job(const Options& options)
      : options_(options),
        signals_(signals_to_watch(options)),
        input_(options.reader),
        relay_(options),
        summary_(summary_of(options)) {}

  /// No host keeps an agent, whatever the end was. All are told before the wait for any of them.
  ~Job() {
    for (const auto& host : hosts_) {
      if (host.ranks) host.ranks->part();
    }
  }
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  int run() {
    if (options_.timeout) deadline_ = timeout_ = Clock::now() + *options_.timeout;
    const HostPlan plan = common_plan();
    open_status_service(job_id(plan.secret));
    prepare_hosts(plan);
    while (!all_ready() && !ending()) turn();
    if (!ending()) {
      start_all();
      while (anybody_left()) turn();
    }
    finish();
    return summarise(exit_code());
  }

 private:
  /// How far all ranks were told to end.
  enum class Step { none, interrupt, terminate, kill };

  /// A host and its ranks.
  struct Host {
    std::string name;
    int first = 0;  ///< of its ranks
    int count = 0;
    std::unique_ptr<HostRanks> ranks;
  };

  static std::vector<int> signals_to_watch(const Options& options) {
    std::vector<int> signals = StandardInput::signals();
    if (!options.roads.empty())
      signals.push_back(SIGTSTP);  // other hosts would take a hrun that stands for lost
    return signals;
  }

  // --- starting ---

  /// The facts that are known of the ranks before they are started.
  static JobSummary summary_of(const Options& options) {
    JobSummary summary;
    summary.command = options.command;
    for (const auto& share : options.shares) {
      summary.hosts.push_back(share.host);
      for (const auto& seat : share.seats) {
        RankSummary& rank = summary.ranks.emplace_back();
        rank.rank = seat.rank;
        rank.host = share.host;
      }
    }
    return summary;
  }

  /// A job runs also where nobody can ask how it is, unless that was asked for.
  void open_status_service(const std::string& id) {
    status_service_.emplace(
        id, summary_,
        [this](const Question& question) {
          for (const auto& host : hosts_) host.ranks->ask(question);
        },
        Clock::now());
    if (options_.metrics) {
      status_service_->open(*options_.metrics);
      say(fmt::format("metrics are at {}", status_service_->metrics_place()));
    }
    try {
      status_service_->open(open_job_socket(id));
      say(fmt::format("this is job {}", id));
    } catch (const Error& error) {
      print(fmt::format("hrun: hrun status will not find this job: {}\n", error.what()));
    }
  }

  void prepare_hosts(HostPlan plan) {
    for (const auto& share : options_.shares) {
      plan.seats = share.seats;
      hosts_.push_back({share.host, share.seats.front().rank, static_cast<int>(share.seats.size()), {}});
      hosts_.back().ranks = prepare(plan, share);
    }
  }

  [[nodiscard]] HostPlan common_plan() const {
    HostPlan plan;
    plan.command = options_.command;
    plan.environment = job_environment(own_environment(), options_.environment);
    plan.horovod_folder = options_.horovod_folder;
    plan.network = options_.network;
    plan.bind_to = options_.bind_to;
    plan.secret = make_secret();
    plan.alone = options_.shares.size() == 1;
    plan.terminal = ::isatty(STDOUT_FILENO) == 1;
    return plan;
  }

  std::unique_ptr<HostRanks> prepare(HostPlan plan, const HostShare& share) {
    const Road* road = road_to(share.host);
    input_.go_into(plan, road == nullptr);
    if (road == nullptr) return make_local_ranks(plan);
    plan.environment = without_session(plan.environment, options_.environment);
    plan.directory = std::filesystem::current_path().string();
    return make_remote_ranks(*road, plan, options_.start_timeout, Clock::now());
  }

  /// Whether all hosts are. Throws Error(unavailable) that names all that cannot be, once that is known.
  [[nodiscard]] bool all_ready() const {
    using State = HostRanks::State;
    const auto count = [&](State state) {
      return std::count_if(hosts_.begin(), hosts_.end(),
                           [&](const Host& host) { return host.ranks->state() == state; });
    };
    if (count(State::making_ready) > 0) return false;
    if (count(State::failed) == 0) return true;
    std::string text = fmt::format(
        "cannot start ranks on {} of {} hosts, and has started none:", count(State::failed), hosts_.size());
    for (const auto& host : hosts_) {
      if (host.ranks->state() == State::failed)
        text += fmt::format("\n  {}: {}", host.name, host.ranks->trouble());
    }
    throw Error(Code::unavailable, text);
  }

  void start_all() {
    const Host& first = hosts_.front();
    const MeetingPoint meeting = meeting_at(first.ranks->ready(), name_for_others(first));
    for (const auto& host : hosts_) host.ranks->start(meeting);
    started_ = true;
    for (const auto& host : hosts_) report_bindings(host);
    for (const auto& host : hosts_) {
      for (int i = 0; i < host.count; ++i) {
        relay_.add(host.ranks->output(i), host.ranks->errors(i), input_.converses_with(host.first + i));
      }
      input_.add(*host.ranks, host.first, host.count);
    }
  }

  void report_bindings(const Host& host) {
    const Ready& ready = host.ranks->ready();
    const std::string on_it = hosts_.size() == 1 ? "" : " on " + host.name;
    if (!ready.unbound.empty()) print(fmt::format("hrun: {}{}\n", ready.unbound, on_it));
    if (!options_.report_bindings && !options_.verbose) return;
    for (int i = 0; i < host.count; ++i) {
      const auto index = static_cast<std::size_t>(i);
      print(fmt::format("hrun: rank {}{} is {}\n", host.first + i, on_it,
                        index < ready.bindings.size() ? "bound to " + ready.bindings[index] : "not bound"));
    }
  }

  /// The name by which other hosts may know the one of rank 0; none where nobody else has to.
  [[nodiscard]] std::string name_for_others(const Host& host) const {
    if (hosts_.size() == 1) return "";
    return road_to(host.name) == nullptr ? host_name() : host.name;
  }

  [[nodiscard]] const Road* road_to(const std::string& host) const {
    const auto road = std::find_if(options_.roads.begin(), options_.roads.end(),
                                   [&](const Road& one) { return one.host == host; });
    return road == options_.roads.end() ? nullptr : &*road;
  }

  // --- one turn ---

  void turn() {
    std::vector<pollfd> events{{signals_.fd(), POLLIN, 0}};
    relay_.watch(events);
    status_service_->watch(events);
    input_.watch(events);
    TimePoint next =
        std::min({deadline_, reader_deadline_, status_service_->next(), relay_.next(), input_.next()});
    if (relay_.ready()) next = TimePoint::min();
    for (const auto& host : hosts_) {
      host.ranks->watch(events);
      next = std::min(next, host.ranks->next());
    }
    ::poll(events.data(), events.size(), milliseconds_until(next));
    pass_output();
    take_signals();
    take_events();
    input_.turn();
    status_service_->turn(Clock::now());
    if (Clock::now() >= deadline_) pass_deadline();
    if (finishing_) await_reader();
  }

  void pass_output() {
    if (!relay_.move()) reader_gone();
  }

  /// The ranks are gone, and what they wrote is still to be read and written. A reader gets everything,
  /// however slow it is, for as long as it takes something from time to time, unless hrun is told to end or
  /// its time is over. The report does not wait for a reader of stdout.
  void finish() {
    finishing_ = true;
    relay_.ranks_have_ended();
    if (signal_ == 0 && !timed_out_) deadline_ = timeout_;
    pass_output();
    await_reader();
    while (!given_up_ && !relay_.errors_read()) turn();
    report();
    while (!given_up_ && !relay_.done()) turn();
    if (relay_.abandoned() == 0) return;
    print(fmt::format("hrun: its output was not read to the end: {} bytes were left unwritten\n",
                      relay_.abandoned()));
    while (!given_up_ && !relay_.done()) turn();
  }

  /// Any bytes that the reader takes give it the grace anew.
  void await_reader() {
    const bool waits = relay_.held_up() && relay_.written() == written_;
    written_ = relay_.written();
    const TimePoint now = Clock::now();
    if (!waits || reader_deadline_ == TimePoint::max()) {
      reader_deadline_ = now + std::max<std::chrono::milliseconds>(options_.grace, kLastWords);
    } else if (now >= reader_deadline_) {
      relay_.abandon();
    }
  }

  void take_signals() {
    signals_.take(
        [&](const Signals::Child& child) {
          for (const auto& host : hosts_)
            host.ranks->child_changed(child.pid, child.wait_status, Clock::now());
        },
        [&](int signal) { told(signal); });
  }

  void take_events() {
    const TimePoint now = Clock::now();
    for (std::size_t i = 0; i < hosts_.size(); ++i) {
      for (const auto& event : hosts_[i].ranks->turn(now)) take(static_cast<int>(i), event);
    }
    look_for_a_standstill();
  }

  void take(int host, const RankEvent& event) {
    const Host& its_host = hosts_[static_cast<std::size_t>(host)];
    const int rank = its_host.first + event.index;
    switch (event.kind) {
      case RankEvent::Kind::started:
        summary_of(rank).pid = event.pid;
        summary_of(rank).started = std::chrono::system_clock::now();
        say(fmt::format("rank {} is process {}{}", rank, event.pid, on(host)));
        running_.insert(rank);
        return;
      case RankEvent::Kind::stopped:
        stopped_[rank] = {rank, host, event.ending, event.when};
        if (!ranks_told()) print(fmt::format("hrun: {} {}\n", name(rank), event.ending.how));
        return;
      case RankEvent::Kind::resumed:
        if (stopped_.erase(rank) != 0 && !ranks_told()) print(fmt::format("hrun: {} goes on\n", name(rank)));
        return;
      case RankEvent::Kind::answered: hear(rank, event.answer); return;
      case RankEvent::Kind::ended:
        running_.erase(rank);
        stopped_.erase(rank);
        input_.ended(rank);
        any_ended_ = true;
        say(fmt::format("rank {}{} {}", rank, on(host), event.ending.how));
        message_end(rank, event);
        tell_others(rank, event.ending);
        ended({rank, host, event.ending, event.when});
        return;
      case RankEvent::Kind::host_lost:
        for (int lost = its_host.first; lost < its_host.first + its_host.count; ++lost) {
          running_.erase(lost);
          stopped_.erase(lost);
          input_.ended(lost);
        }
        if (ranks_told() || reported_) print(fmt::format("hrun: {}\n", describe_loss(host, event.ending)));
        ended({-1, host, event.ending, event.when});
        return;
    }
  }

  void hear(int rank, const Reply& reply) {
    if (reply.kind == ReplyKind::missed) return hear_of_a_missed(rank, reply);
    if (const auto trace = end_reports_.take(rank, reply)) {
      pass_output();  // what it wrote before
      relay_.add_errors(rank, trace->text, trace->shown);
    }
    status_service_->take(rank, reply);
  }

  void hear_of_a_missed(int rank, const Reply& reply) {
    try {
      if (rank == 0)
        root_cause_.left_early(decode_missed_rank(reply, static_cast<int>(summary_.ranks.size())));
    } catch (const Error&) {
      return;  // as if it had said nothing
    }
  }

  /// Where some ranks have ended, and those that are left are stopped, nothing happens any more by itself. If
  /// the job has failed that is its end; else somebody has time to let them go on.
  void look_for_a_standstill() {
    const bool stands = !ranks_told() && all_that_run_are_stopped();
    if (stands && root_cause_.known()) {
      say("those that are left are stopped: no time helps them");
      end_ranks(Step::terminate);
    } else if (stands && any_ended_ && !stands_still_) {
      stands_still_ = true;
      say(fmt::format("those that are left are stopped; they have {} s to go on", grace_seconds()));
      deadline_ = std::min(deadline_, Clock::now() + options_.grace);
    } else if (!stands && std::exchange(stands_still_, false) && !root_cause_.known() && !ranks_told()) {
      deadline_ = timeout_;
    }
  }

  [[nodiscard]] RankSummary& summary_of(int rank) { return summary_.ranks[static_cast<std::size_t>(rank)]; }

  void message_end(int rank, const RankEvent& event) {
    RankSummary& summary = summary_of(rank);
    const auto ago = std::chrono::duration_cast<WallTime::duration>(Clock::now() - event.when);
    summary.ending = event.ending;
    summary.ended = std::chrono::system_clock::now() - ago;
    summary.ended_by_hrun = ranks_told();
  }

  /// Lets the other ranks know how one has ended, so that what they say of it is more than that it is gone.
  /// The cause is among the first; many good ends at a time are those of a job that is done.
  void tell_others(int rank, const Ending& ending) {
    constexpr int kMost = 8;
    int& told = ending.exit_code == 0 ? good_ends_told_ : bad_ends_told_;
    if (ranks_told() || told == kMost) return;
    ++told;
    pass_output();  // what it wrote before
    const RankEnd end{rank, ending.signal != 0, ending.how, relay_.last_words(rank, kMostWordsOfARank)};
    for (const auto& host : hosts_) host.ranks->tell(end);
  }

  void ended(const Failure& failure) {
    if (ranks_told() || (reported_ && root_cause_.known())) return;  // what was reported stands
    endings_.push_back(failure);
    if (failure.ending.exit_code == 0) return;
    if (!root_cause_.accuse(failure, first_stopped())) return;
    if (!anybody_left()) return;  // nobody who needs a deadline; output has as long as it takes
    say(fmt::format("the others have {} s to end by themselves", grace_seconds()));
    deadline_ = std::min(deadline_, Clock::now() + options_.grace);
  }

  [[nodiscard]] std::optional<Failure> first_stopped() const {
    const auto first = std::min_element(
        stopped_.begin(), stopped_.end(),
        [](const auto& one, const auto& other) { return one.second.when < other.second.when; });
    return first == stopped_.end() ? std::nullopt : std::optional(first->second);
  }

  [[nodiscard]] bool all_that_run_are_stopped() const {
    return !running_.empty() && running_.size() == stopped_.size();
  }

  [[nodiscard]] bool anybody_left() const {
    return std::any_of(hosts_.begin(), hosts_.end(),
                       [](const Host& host) { return host.ranks->state() == HostRanks::State::running; });
  }

  // --- ending ---

  [[nodiscard]] bool ranks_told() const { return step_ != Step::none; }
  /// Whether hrun was told to end, or its time is over.
  [[nodiscard]] bool ending() const { return signal_ != 0 || timed_out_; }

  void pass_deadline() {
    if (stands_still_ && !ranks_told() && !root_cause_.known()) root_cause_.accuse(*first_stopped());
    if (!root_cause_.known() && signal_ == 0 && !timed_out_) {
      timed_out_ = true;
      print(fmt::format("hrun: the job did not end within {} s (--timeout)\n",
                        std::chrono::duration<double>(*options_.timeout).count()));
    }
    take_next_step();
  }

  /// The next step of ending the job: first TERM, then KILL, then giving up what nobody reads.
  void take_next_step() {
    if (!anybody_left() || step_ == Step::kill) {
      give_up();
    } else {
      end_ranks(step_ == Step::terminate ? Step::kill : Step::terminate);
    }
  }

  void told(int signal) {
    if (signal == SIGWINCH) {
      input_.resized();
    } else if (signal == SIGTSTP && options_.roads.empty()) {
      input_.stop();
    } else if (signal == SIGTSTP) {
      print("hrun: not stopped, as the ranks on other hosts would be ended without it\n");
    } else {
      told_to_end(signal);
    }
  }

  /// A Ctrl-C reaches ranks as one. Each further signal takes the next step at once, instead of the grace.
  void told_to_end(int signal) {
    const bool reader_was_gone = signal_ == SIGPIPE;  // a Ctrl-C ends the reader, too, perhaps sooner
    if (signal_ == 0 || reader_was_gone) {
      signal_ = signal;
      say(fmt::format("{}: ending all ranks", ::strsignal(signal)));
    }
    if (!anybody_left()) return give_up();  // nobody is left who could need time
    if (step_ == Step::none) {
      end_ranks(signal == SIGINT ? Step::interrupt : Step::terminate);
    } else if (!reader_was_gone) {
      take_next_step();
    }
  }

  /// Nobody reads hrun's output any more, as after `| head`. That is told at every write; and after a Ctrl-C
  /// the reader ends, too. It never is a second Ctrl-C.
  void reader_gone() {
    take_signals();  // a Ctrl-C that has ended the reader is already here
    if (signal_ != 0) return;
    signal_ = SIGPIPE;
    say("nobody reads the output any more: ending all ranks");
    end_ranks(Step::terminate);
  }

  void end_ranks(Step step) {
    if (step_ >= step) return;
    step_ = step;
    for (const auto& host : hosts_) {
      switch (step) {
        case Step::none: break;
        case Step::interrupt: host.ranks->interrupt(); break;
        case Step::terminate: host.ranks->terminate(); break;
        case Step::kill: host.ranks->kill(); break;
      }
    }
    deadline_ = Clock::now() + (step == Step::kill ? kLastWords : options_.grace);
  }

  /// Output that has not been written by now never will be.
  void give_up() {
    given_up_ = true;
    relay_.abandon();
    deadline_ = TimePoint::max();
  }

  // --- talking ---

  [[nodiscard]] double grace_seconds() const { return std::chrono::duration<double>(options_.grace).count(); }

  void say(const std::string& what) {
    if (options_.verbose) print(fmt::format("hrun: {}\n", what));
  }

  void print(const std::string& text) { relay_.print(text); }

  /// "rank 1 (pid 4711 on b)"
  [[nodiscard]] std::string name(int rank) {
    const RankSummary& known = summary_of(rank);
    const std::string host = hosts_.size() == 1 ? "" : " on " + known.host;
    return fmt::format("rank {} (pid {}{})", rank, known.pid, host);
  }

  /// " on b", where there is more than one host.
  [[nodiscard]] std::string on(int host) const {
    return hosts_.size() == 1 ? "" : " on " + hosts_[static_cast<std::size_t>(host)].name;
  }

  [[nodiscard]] std::string describe_loss(int host, const Ending& why) const {
    const Host& lost = hosts_[static_cast<std::size_t>(host)];
    return fmt::format("host {} is lost, and with it rank{} {}{}: {}", lost.name, lost.count > 1 ? "s" : "",
                       lost.first, lost.count > 1 ? fmt::format(" to {}", lost.first + lost.count - 1) : "",
                       why.how);
  }

  /// Beside what the ranks wrote, where the user wants that in files: what became of each. The exit code for
  /// hrun.
  int summarise(int exit_code) {
    if (options_.output_directory.empty() || !started_) return exit_code;
    for (auto& rank : summary_.ranks) {
      const Relay::LineCounts lines = relay_.lines(rank.rank);
      rank.output_lines = lines.output;
      rank.error_lines = lines.errors;
      rank.last_words = relay_.last_words(rank.rank, kMostWordsOfARank);
      if (const EndReport* report = end_reports_.of(rank.rank)) {
        rank.reason = report->error;
        rank.where = report->where;
      }
    }
    summary_.exit_code = exit_code;
    if (root_cause_.known()) summary_.first_cause = blame(root_cause_.failure());
    try {
      write_summary(summary_, options_.output_directory);
    } catch (const Error& error) {
      print(fmt::format("hrun: {}\n", error.what()));
      return exit_code == 0 ? kOutputLost : exit_code;
    }
    return exit_code;
  }

  /// The summary's text on the first cause, which this marks.
  std::string blame(const Failure& first) {
    if (first.rank < 0) return describe_loss(first.host, first.ending);
    RankSummary& rank = summary_of(first.rank);
    rank.first_cause = true;
    return fmt::format("rank {} (pid {} on {}) {}", rank.rank, rank.pid, rank.host, first.ending.how);
  }

  void report() {
    reported_ = true;
    if (!root_cause_.known()) {
      const std::string text = end_reports_.describe(-1, summary_) + end_reports_.describe_dumps(summary_);
      if (started_ && !text.empty()) print("\n" + text);
      return;
    }
    const Failure& first = root_cause_.failure();
    const std::string dumps = end_reports_.describe_dumps(summary_);
    if (first.rank < 0) {
      print(fmt::format("\nhrun: {}\n{}{}{}", describe_loss(first.host, first.ending),
                        end_reports_.describe(-1, summary_), describe_other_endings(), dumps));
      return;
    }
    std::string text = fmt::format("\nhrun: {} failed first: it {}\n", name(first.rank), first.ending.how);
    text += end_reports_.describe(first.rank, summary_) + advice_for(first.rank) + describe_other_endings() +
            dumps;
    const auto& last = relay_.last_errors(first.rank);
    const bool shown = end_reports_.has_shown(first.rank);
    if (!last.empty() && !shown) text += "hrun: the last it wrote to stderr:\n";
    for (const auto& line : last) text += shown ? "" : "  " + line + "\n";
    print(text);
  }

  [[nodiscard]] std::string advice_for(int rank) const {
    const EndReport* report = end_reports_.of(rank);
    const std::string advice =
        input_.advice(rank, report != nullptr ? report->error : relay_.last_words(rank, kMostWordsOfARank));
    return advice.empty() ? "" : fmt::format("hrun: {}\n", advice);
  }

  /// The other ranks and hosts that ended by themselves, without telling why: a rank that was done too early,
  /// and those that failed in turn.
  [[nodiscard]] std::string describe_other_endings() const {
    constexpr std::size_t kMost = 8;
    const Failure& first = root_cause_.failure();
    std::string lost;
    std::map<int, std::pair<std::string, std::string>> endings;
    for (const auto& other : endings_) {
      if (other.rank == first.rank && other.host == first.host) continue;
      if (other.rank < 0) {
        lost += fmt::format("hrun: {}\n", describe_loss(other.host, other.ending));
      } else if (other.ending.exit_code == 0 || end_reports_.of(other.rank) == nullptr) {
        endings[other.rank] = {on(other.host), other.ending.how};
      }
    }
    return lost + describe_endings(endings, kMost);
  }

  [[nodiscard]] int exit_code() const {
    if (root_cause_.known()) return root_cause_.failure().ending.exit_code;
    if (timed_out_) return kTimedOut;
    if (signal_ != 0) return 128 + signal_;
    return relay_.incomplete() ? kOutputLost : 0;
  }

  const Options& options_;
  Signals signals_;
  StandardInput input_;
  std::vector<Host> hosts_;
  Relay relay_;
  JobSummary summary_;
  std::optional<StatusService> status_service_;

  TimePoint timeout_ = TimePoint::max();
  TimePoint deadline_ = TimePoint::max();         // of the next step: the time-out, TERM, KILL, giving up
  TimePoint reader_deadline_ = TimePoint::max();  // of a reader that stands still, once the ranks have ended
  std::uint64_t written_ = 0;                     // that readers had taken when the clock last began anew
  bool started_ = false;
  Step step_ = Step::none;
  bool finishing_ = false;  // the ranks have ended, and what they wrote has not been written yet
  bool given_up_ = false;
  bool timed_out_ = false;
  bool reported_ = false;  // who failed first, if anybody did
  int signal_ = 0;         // that told hrun to end
  int good_ends_told_ = 0;
  int bad_ends_told_ = 0;
  RootCause root_cause_;
  EndReports end_reports_;
  bool any_ended_ = false;
  bool stands_still_ = false;       // see look_for_a_standstill
  std::set<int> running_;           // ranks
  std::map<int, Failure> stopped_;  // of those, which were stopped, and how and when
  std::vector<Failure> endings_;    // of those that were not told to end, good ones too, in order
};

}  // namespace

int run_job(const Options& options) { return Job(options).run(); }

}  // namespace hora::hrun
