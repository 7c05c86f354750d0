// SPDX-License-Identifier: Apache-2.0
#include "runner/launch/job.h"

#include "core/join/job_id.h"
#include "core/join/secret.h"
#include "runner/elastic/elastic_hosts.h"
#include "runner/elastic/generations.h"
#include "runner/launch/job_hosts.h"
#include "runner/launch/job_ranks.h"
#include "runner/launch/signals.h"
#include "runner/launch/what_next.h"
#include "runner/observe/final_report.h"
#include "runner/observe/status_service.h"
#include "runner/streams/reader_deadline.h"
#include "runner/streams/standard_input.h"

#include <hora/status.h>

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

namespace hora::hrun {
namespace {

constexpr int kSummaryLost = 1;

/// Or may have them later.
bool has_other_hosts(const Options& options) { return !options.remote_hosts.empty() || options.discovery; }

std::vector<int> signals_to_watch(const Options& options) {
  std::vector<int> signals = StandardInput::signals();
  if (has_other_hosts(options))
    signals.push_back(SIGTSTP);  // other hosts would take a hrun that stands for lost
  return signals;
}

JobPolicy policy_of(const Options& options) {
  JobPolicy policy;
  policy.grace = options.grace;
  if (options.timeout) policy.timeout_at = Clock::now() + *options.timeout;
  return policy;
}

double seconds(std::chrono::milliseconds time) { return std::chrono::duration<double>(time).count(); }

/// The lines on how the ranks of a host are bound to processors, or why they are not. `on`: the name of the
/// host, see JobLog. `in_full`: a line for each rank.
std::string describe_bindings(const JobHost& host, const std::string& on, bool in_full) {
  const Ready& ready = host.ranks->ready();
  std::string text;
  if (!ready.unbound.empty()) text += fmt::format("hrun: {}{}\n", ready.unbound, on);
  for (std::size_t index = 0; in_full && index < host.numbers.size(); ++index) {
    const bool bound = index < ready.bindings.size();
    text += fmt::format("hrun: rank {}{} is {}\n", host.numbers[index], on,
                        bound ? "bound to " + ready.bindings[index] : "not bound");
  }
  return text;
}

void print_bindings(JobHosts& hosts, const Options& options, JobLog& log) {
  const bool in_full = options.report_bindings || options.verbose;
  for (int host = 0; host < hosts.size(); ++host) {
    if (hosts.at(host).ranks) log.print(describe_bindings(hosts.at(host), log.on(host), in_full));
  }
}

/// A job runs also where nobody can ask how it is, unless that was asked for.
void open_service(StatusService& service, const std::string& id, const Options& options, JobLog& log) {
  if (options.metrics) {
    service.open(*options.metrics);
    log.say(fmt::format("metrics are at {}", service.metrics_address()));
  }
  try {
    service.open(open_job_socket(id));
    log.say(fmt::format("this is job {}", id));
  } catch (const Error& error) {
    log.print(fmt::format("hrun: hrun status will not find this job: {}\n", error.what()));
  }
}

/// Completes the summary, and writes it where the user wants it in a file, beside what the ranks wrote.
/// Returns the exit code for hrun.
int summarise(JobSummary& summary, const JobEnd& end, int exit_code, const Options& options, JobLog& log) {
  if (options.output_directory.empty() || !end.state.started) return exit_code;
  complete(summary, end, exit_code);
  try {
    write_summary(summary, options.output_directory);
  } catch (const Error& error) {
    log.print(fmt::format("hrun: {}\n", error.what()));
    return exit_code == 0 ? kSummaryLost : exit_code;
  }
  return exit_code;
}

GenerationFacts facts_of(const JobHosts& hosts, const JobLog& log) {
  return {[&](int rank) { return log.process(rank); },
          [&](int host, int port) { return hosts.coordinator(host, port); }, new_secret};
}

void print(const GenerationOrders& orders, JobLog& log) {
  for (const auto& line : orders.lines) log.print(fmt::format("hrun: {}\n", line));
  for (const auto& detail : orders.details) log.say(detail);
}

/// Notes the ranks that an elastic job has lost, and says so unless the job has failed.
void conclude(const Generations& generations, bool failed, JobSummary& summary, JobLog& log) {
  summary.generation = generations.generation();
  summary.changes = generations.changes();
  for (const int rank : generations.lost().ranks()) summary.ranks[static_cast<std::size_t>(rank)].lost = true;
  const std::string losses = generations.lost().describe();
  if (!failed && !losses.empty()) log.print(fmt::format("hrun: {}\n", losses));
}

/// Explains a decision to the user. `signal`: by which hrun was told to end.
void explain(JobAction::Reason reason, int signal, const Options& options, JobLog& log) {
  using Reason = JobAction::Reason;
  switch (reason) {
    case Reason::none:
    case Reason::cannot_go_on: return;  // Generations has said why
    case Reason::first_failure:
      return log.say(fmt::format("the others have {} s to end by themselves", seconds(options.grace)));
    case Reason::standstill:
      return log.say(
          fmt::format("those that are left are stopped; they have {} s to go on", seconds(options.grace)));
    case Reason::hopeless_standstill: return log.say("those that are left are stopped: no time helps them");
    case Reason::timed_out:
      return log.print(
          fmt::format("hrun: the job did not end within {} s (--timeout)\n", seconds(*options.timeout)));
    case Reason::signalled: return log.say(fmt::format("{}: ending all ranks", ::strsignal(signal)));
    case Reason::reader_gone: return log.say("nobody reads the output any more: ending all ranks");
  }
}

/// The rank that a reply of rank 0 tells of; -1: it is no such reply.
int missed_rank(const Reply& reply, int ranks) {
  try {
    return decode_missed_rank(reply, ranks);
  } catch (const Error&) {
    return -1;
  }
}

/// The ends that other ranks are told of. The cause is among the first; many good ends at a time are those of
/// a job that is done.
class ToldEnds {
 public:
  /// Whether this end is still to be told; counts it.
  bool take(const Ending& ending) {
    constexpr int kMost = 8;
    int& told = ending.exit_code == 0 ? good_ : bad_;
    if (told == kMost) return false;
    ++told;
    return true;
  }

 private:
  int good_ = 0;
  int bad_ = 0;
};

/// One run: `what_next` decides, and this class tells it what happens and does what it says. Everything
/// happens in one thread, which waits in poll() for output to read and to write, for signals (children's ends
/// among them), for other hosts and for the next deadline, and nowhere else.
class Job {
 public:
  explicit Job(const Options& options)
      : options_(options),
        policy_(policy_of(options)),
        state_(policy_),
        signals_(signals_to_watch(options)),
        input_(options.reader),
        ranks_(options),
        reader_deadline_(ranks_.relay(), options.grace) {}

  int run() {
    const HostPlan plan = plan_of(options_);
    const std::string id = job_id(plan.secret);
    status_service_.emplace(
        id, ranks_.summary(), [this](const Question& question) { hosts_.ask(question); }, Clock::now());
    open_service(*status_service_, id, options_, ranks_.log());
    hosts_.prepare(plan, options_, input_);
    if (options_.elastic) elastic_hosts_.emplace(options_, hosts_, ranks_);
    std::optional<int> status = next_phases();
    while (!status) {
      turn();
      status = next_phases();
    }
    return summarise(ranks_.summary(), end(), *status, options_, ranks_.log());
  }

 private:
  using Kind = JobEvent::Kind;

  // --- deciding ---

  JobEvent event(Kind kind) const {
    JobEvent event;
    event.kind = kind;
    event.now = Clock::now();
    event.anybody_left = hosts_.anybody_left();
    return event;
  }

  JobAction decide(const JobEvent& event) {
    NextStep next = what_next(std::move(state_), event, policy_);
    state_ = std::move(next.state);
    explain(next.action.reason, state_.signal, options_, ranks_.log());
    return next.action;
  }

  void happens(const JobEvent& event) {
    const JobAction action = decide(event);
    if (action.kind == JobAction::Kind::end) {
      if (generations_) generations_->expect_ends();
      hosts_.send(action.signal);
    }
    if (action.kind == JobAction::Kind::give_up) ranks_.relay().abandon();
  }

  /// Begins all phases for which it is time. Returns the exit code for hrun after the last one.
  std::optional<int> next_phases() {
    while (true) {
      JobEvent turned = event(Kind::turned);
      turned.phase_done = phase_is_done();
      turned.output_lost = ranks_.relay().incomplete();
      const JobAction action = decide(turned);
      switch (action.kind) {
        case JobAction::Kind::start: start(); break;
        case JobAction::Kind::drain: drain(); break;
        case JobAction::Kind::report: report(); break;
        case JobAction::Kind::finish: return action.status;
        default: return std::nullopt;
      }
    }
  }

  bool phase_is_done() {
    switch (state_.phase) {
      case JobPhase::preparing: return hosts_.all_ready();
      case JobPhase::running: return !hosts_.anybody_left();
      case JobPhase::draining: return ranks_.relay().errors_read();
      case JobPhase::reported: return reader_deadline_.over(state_.given_up);
    }
    return false;
  }

  // --- phases ---

  void start() {
    hosts_.start();
    if (options_.elastic) begin_generations();
    print_bindings(hosts_, options_, ranks_.log());
    for (int host = 0; host < hosts_.size(); ++host) {
      const JobHost& started = hosts_.at(host);
      if (!started.ranks) continue;
      ranks_.add(started, input_);
      input_.add(*started.ranks, started.numbers);
    }
  }

  void begin_generations() {
    generations_.emplace(options_.shares, elastic_hosts_->capacities(), *options_.elastic,
                         facts_of(hosts_, ranks_.log()), Clock::now());
    elastic_hosts_->begin(*generations_, Clock::now());
    status_service_->follow(*generations_, [this](const JobCommand& command) { return obey(command); });
  }

  void drain() {
    ranks_.relay().ranks_have_ended();
    pass_output();
    reader_deadline_.turn(Clock::now());
  }

  void report() {
    ranks_.log().print(final_report(end(), ranks_.summary()));
    if (generations_) conclude(*generations_, state_.cause.known(), ranks_.summary(), ranks_.log());
  }

  [[nodiscard]] JobEnd end() const {
    return {state_, ranks_.end_reports(), ranks_.relay(), input_, ranks_.log()};
  }

  // --- one turn ---

  void turn() {
    std::vector<pollfd> events{{signals_.fd(), POLLIN, 0}};
    ranks_.relay().watch(events);
    status_service_->watch(events);
    input_.watch(events);
    hosts_.watch(events);
    if (generations_) elastic_hosts_->watch(events);
    TimePoint next = std::min({state_.deadline, reader_deadline_.next(), status_service_->next(),
                               ranks_.relay().next(), input_.next(), hosts_.next()});
    if (generations_) next = std::min({next, generations_->next(), elastic_hosts_->next()});
    if (ranks_.relay().ready()) next = TimePoint::min();
    ::poll(events.data(), events.size(), milliseconds_until(next));
    pass_output();
    take_signals();
    take_events();
    input_.turn();
    status_service_->turn(Clock::now());
    if (generations_) {
      carry_out(elastic_hosts_->turn(Clock::now()));
      carry_out(generations_->tick(Clock::now()));
    }
    happens(event(Kind::time));
    if (state_.phase >= JobPhase::draining) reader_deadline_.turn(Clock::now());
  }

  void pass_output() {
    if (ranks_.relay().move()) return;
    take_signals();  // a Ctrl-C that has ended the reader is already here
    happens(event(Kind::reader_gone));
  }

  void take_signals() {
    signals_.take(
        [&](const Signals::Child& child) {
          hosts_.child_changed(child.pid, child.wait_status, Clock::now());
          if (elastic_hosts_) elastic_hosts_->child_changed(child.pid, child.wait_status);
        },
        [&](int signal) { told(signal); });
  }

  void told(int signal) {
    if (signal == SIGWINCH) return input_.resized();
    if (signal == SIGTSTP && !has_other_hosts(options_)) return input_.stop();
    if (signal == SIGTSTP)
      return ranks_.log().print("hrun: not stopped, as the ranks on other hosts would be ended without it\n");
    JobEvent signalled = event(Kind::signalled);
    signalled.signal = signal;
    happens(signalled);
  }

  void take_events() {
    const TimePoint now = Clock::now();
    for (int host = 0; host < hosts_.size(); ++host) {
      for (const auto& event : hosts_.turn(host, now)) take(host, event);
    }
    happens(event(Kind::all_heard));
  }

  // --- events of ranks ---

  void take(int host, const RankEvent& event) {
    if (event.kind == RankEvent::Kind::host_lost) return host_lost({-1, host, event.ending, event.when});
    const int rank = hosts_.at(host).numbers[static_cast<std::size_t>(event.index)];
    switch (event.kind) {
      case RankEvent::Kind::started: return rank_started(rank, host, event.pid);
      case RankEvent::Kind::stopped:
        if (!state_.ranks_told()) ranks_.log().print_of(rank, event.ending.how);
        if (generations_) generations_->stopped(rank, Clock::now());
        return happens_to({rank, host, event.ending, event.when}, Kind::rank_stopped);
      case RankEvent::Kind::resumed:
        if (state_.stopped.contains(rank) && !state_.ranks_told()) ranks_.log().print_of(rank, "goes on");
        if (generations_) generations_->resumed(rank, Clock::now());
        return happens_to({rank, host, {}, event.when}, Kind::rank_resumed);
      case RankEvent::Kind::answered: return hear(rank, event.answer);
      case RankEvent::Kind::told: return carry_out(generations_->hear(rank, event.message, Clock::now()));
      case RankEvent::Kind::ended: return rank_ended({rank, host, event.ending, event.when});
      case RankEvent::Kind::host_lost: return;  // see above
    }
  }

  void happens_to(const Failure& subject, Kind kind, const GenerationOrders& orders = {}) {
    JobEvent of_rank = event(kind);
    of_rank.subject = subject;
    of_rank.goes_on = orders.goes_on;
    of_rank.was_member = orders.was_member;
    happens(of_rank);
  }

  /// Does as the generations of an elastic job need it. Once hrun was told to end the job, nobody has to
  /// know.
  void carry_out(const GenerationOrders& orders) {
    for (const auto& start : orders.starts) ranks_.expect(start.placement);
    for (const int rank : orders.joined) ranks_.end_reports().forget_former(rank);
    hosts_.carry_out(orders);
    if (state_.ranks_told()) return;
    print(orders, ranks_.log());
    if (orders.formed) happens(event(Kind::formed));
    if (!orders.end) return;
    JobEvent at_end = event(Kind::cannot_go_on);
    at_end.status = orders.end->status;
    happens(at_end);
  }

  void rank_started(int rank, int host, int pid) {
    if (ranks_.begin(rank, hosts_.at(host), pid)) status_service_->replaced(rank);
    happens_to({rank, host, {}, {}}, Kind::rank_started);
  }

  void hear(int rank, const Reply& reply) {
    if (reply.kind == ReplyKind::missed) {
      const int missed = missed_rank(reply, options_.ranks);
      if (rank != 0 || missed < 0 || generations_) return;  // ranks of generations have other numbers
      return happens_to({missed, 0, {}, {}}, Kind::rank_left_early);
    }
    if (const auto trace = ranks_.end_reports().take(rank, reply)) {
      pass_output();  // what it wrote before
      ranks_.relay().add_errors(rank, trace->text, trace->shown);
    }
    status_service_->take(rank, reply);
  }

  void rank_ended(Failure ended) {
    input_.ended(ended.rank);
    if (generations_) ended.ending.how = generations_->how(ended.rank, ended.ending);
    ranks_.end(ended.rank, ended.ending, Clock::now() - ended.when, state_.ranks_told());
    if (!generations_) {
      tell_others(ended);
      return happens_to(ended, Kind::rank_ended);
    }
    const bool common = ranks_.end_reports().is_common(ended.rank, generations_->ranks_left());
    const auto orders = generations_->ended(ended.rank, ended.ending, common, ended.when, Clock::now());
    happens_to(ended, Kind::rank_ended, orders);
    carry_out(orders);
  }

  /// Lets the other ranks know how one has ended, so that what they say of it is more than that it is gone.
  void tell_others(const Failure& ended) {
    if (state_.ranks_told() || !told_ends_.take(ended.ending)) return;
    pass_output();  // what it wrote before
    hosts_.tell(ranks_.news_of(ended.rank, ended.ending));
  }

  void host_lost(const Failure& lost) {
    const JobHost& host = hosts_.at(lost.host);
    input_.lost(host.ranks.get(), host.numbers);
    hosts_.forget_waiting(lost.host);
    if (state_.ranks_told() || state_.phase == JobPhase::reported)
      ranks_.log().print_loss(lost.host, lost.ending);
    JobEvent of_host = event(Kind::host_lost);
    of_host.subject = lost;
    of_host.ranks = host.numbers;
    if (!generations_) return happens(of_host);
    const std::string why = fmt::format("host {} is lost: {}", host.name, lost.ending.how);
    const auto orders = generations_->lose_host(lost.host, why, Clock::now());
    of_host.goes_on = orders.goes_on;
    of_host.was_member = orders.was_member;
    happens(of_host);
    carry_out(orders);
  }

  std::string obey(const JobCommand& command) {
    auto [orders, text] = elastic_hosts_->obey(command, Clock::now());
    carry_out(orders);
    return text;
  }

  const Options& options_;
  const JobPolicy policy_;
  JobState state_;
  Signals signals_;
  StandardInput input_;
  JobHosts hosts_;
  JobRanks ranks_;
  ReaderDeadline reader_deadline_;
  std::optional<StatusService> status_service_;
  std::optional<ElasticHosts> elastic_hosts_;  // of an elastic job
  std::optional<Generations> generations_;     // of one that was started
  ToldEnds told_ends_;
};

}  // namespace

int run_job(const Options& options) { return Job(options).run(); }

}  // namespace hora::hrun
