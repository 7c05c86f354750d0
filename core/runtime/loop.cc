// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/loop.h"

#include "core/base/log.h"
#include "core/device/host_stream.h"
#include "core/launcher/end_report.h"
#include "core/launcher/launcher_line.h"
#include "core/launcher/question.h"
#include "core/watch/stack.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

namespace hora {
namespace {

constexpr std::chrono::milliseconds kLookAtNccl{100};  // whether it has failed, while it has something to do
constexpr std::chrono::milliseconds kToTellAStack{300};
constexpr int kStepsToFindThePace = 10;

std::chrono::milliseconds in_milliseconds(Clock::duration time) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(time);
}

}  // namespace

Loop::Loop(World& world, const Config& config, TensorTable& table, ProcessSets& sets, Timeline& timeline,
           Delays& delays, OwnGpu& gpu, Messages& messages)
    : world_(world),
      config_(config),
      table_(table),
      sets_(sets),
      timeline_(timeline),
      delays_(delays),
      messages_(messages),
      alert_(world.rollcall ? world.rollcall->alert() : own_alert_),
      negotiator_(*world.control, world.control->size() > 1 ? world.rollcall.get() : nullptr),
      thresholds_(first_thresholds(config)),
      recorder_(config.recorded_operations),
      executor_(world.lane, table, recorder_, tracer_,
                {kWorld, *sets.ranks_of(kWorld), world.control->rank()}, thresholds_.host),
      gpu_(gpu, config, table, recorder_, tracer_, alarm_,
           [this](const Status& why) {
             alarm_.ring(why);
             alert_.ring();
           }),
      stalls_({config.missing_warning, config.missing_timeout}, world.members),
      stragglers_(config.straggler_steps, world.members),
      lateness_(world.control->rank() == 0 ? world.control->size() : 0),
      watchdog_(
          config.operation_timeout, [this] { return alarm_.progress(); },
          [this](const Status& why) { world_.control->call_off(why); }) {
  prepare_to_choose_batches();
  alarm_.watch(*world.lane.collective);
  // A rank may die while the engine waits for it inside a collective: only another thread can end that.
  world.control->on_loss([this](const Status& why) {
    alarm_.ring(why);
    gpu_.interrupt(why);
  });
  world.control->on_letter([this] { alert_.ring(); });
  delays_.on_change([this] { alert_.ring(); });
  messages_.watch(stalls_.first(), [this] { alert_.ring(); });
}

Loop::~Loop() {
  messages_.watch({}, {});
  delays_.on_change({});
  world_.control->on_letter({});
  world_.control->on_loss({});
}

Loop::Turn Loop::turn(bool pressing) noexcept {
  try {
    Turn turn = turn_or_throw(pressing);
    if (turn.over) end();
    return turn;
  } catch (const Error& error) {
    fail(error.status());
  } catch (const std::exception& error) {
    fail({Code::internal, error.what()});
  }
  return {true, false, TimePoint::max()};
}

void Loop::leave(const std::string& reason) {
  {
    const std::lock_guard lock(leaving_mutex_);
    if (leaving_) return;
    leaving_ = reason;
  }
  alert_.ring();
  if (reason.empty()) return;
  // The engine may be waiting for other ranks, or for a GPU. First the reason: what breaks follows from it.
  const Status why{Code::aborted, shortened(reason, kMostReasonBytes)};
  world_.control->fail(why);
  alarm_.ring(why);
  gpu_.interrupt(why);
}

Loop::Turn Loop::turn_or_throw(bool pressing) {
  const TimePoint now = Clock::now();
  if (!left_) {
    const auto reason = told_to_leave();  // first: what was submitted before that is still asked for
    if (reason && !reason->empty()) throw Error(Code::aborted, *reason);  // which `leave` has told the others
    for (const auto& [group, requests] : table_.take_requests()) negotiator_.ask(group, requests, now);
    if (reason && !std::exchange(leaves_, true)) messages_.leave();
    if (leaves_ && messages_.has_left()) leave(now);
  }
  const auto command = timeline_.take_command();
  if (command != TraceCommand::none) negotiator_.command(command);
  if (const auto delay = delays_.take_change(now)) negotiator_.report(Report::delay, encode(*delay));
  gpu_.check();
  answer_inquiry(now);
  const TimePoint look_at_messages = watch_messages(now);
  const bool listens =
      work_.empty();  // else what is new may need what is to be made first, such as a process set
  Turn turn;
  if (listens) {
    for (auto& heard : negotiator_.hear(now, pressing)) begin(std::move(heard));
    tell_of_missed();
    collect_reports();
    turn.next = watch_stalls(now);  // while that is the time, and what has come is heard
  }
  turn.over = carry_out_next();
  if (const auto divergence = negotiator_.take_divergence(); !divergence.empty())
    log(LogLevel::info, divergence);
  if (tracer_.on()) {
    if (auto part = tracer_.take(Clock::now())) send(*std::move(part));
  }
  follow_steps();
  turn.more = !listens || !work_.empty() || negotiator_.has_more();
  if (turn.over) return turn;
  // Last, as these depend on what began in this turn.
  turn.next = std::min({turn.next, negotiator_.next_look(), look_at_messages});
  if (gpu_.busy()) turn.next = std::min(turn.next, now + kLookAtNccl);
  return turn;
}

std::optional<std::string> Loop::told_to_leave() {
  const std::lock_guard lock(leaving_mutex_);
  return leaving_;
}

void Loop::leave(TimePoint now) {
  if (tracer_.on()) send(tracer_.stop(now));
  left_ = true;  // tensors that are submitted from now on wait for the end, and get its status
  negotiator_.leave(now);
}

void Loop::follow(TraceCommand command) {
  if (command == TraceCommand::none) return;
  if (command == TraceCommand::stop) return send(tracer_.stop(Clock::now()));
  tracer_.start(command == TraceCommand::start_with_cycles);
}

void Loop::send(TracePart part) {
  if (world_.control->rank() == 0) {
    timeline_.add(0, std::move(part));
  } else {
    negotiator_.report(Report::trace, encode(part));
  }
}

void Loop::collect_reports() {
  for (const auto& [rank, kind, content] : negotiator_.take_reports()) {
    switch (kind) {
      case Report::trace: timeline_.add(rank, decode_trace(content)); break;
      case Report::account: stalls_.tell(rank, decode_account(content)); break;
      case Report::delay: stalls_.expect_delay(rank, decode_delay(content), Clock::now()); break;
      case Report::waits:
        stalls_.tell_waits(rank, decode_waits(content, world_.control->size()), Clock::now());
        break;
      case Report::none: break;
    }
  }
}

/// Tells rank 0 which messages of this rank have waited for long, when there is something new to tell.
/// Returns when to look again.
TimePoint Loop::watch_messages(TimePoint now) {
  if (now >= messages_.due()) {
    if (const auto late = messages_.take_late(now)) negotiator_.report(Report::waits, encode(*late));
  }
  return messages_.due();
}

Account Loop::account() const {
  Account account{0, {}, {}, main_thread_stack(kToTellAStack)};
  if (const auto last = recorder_.last()) {
    account.finished = last->sequence;
    account.last = last->name;
    account.since_last = in_milliseconds(Clock::now() - last->finished);
  }
  return account;
}

void Loop::begin(Negotiator::Heard heard) {
  if (heard.inquiry) negotiator_.report(Report::account, encode(account()));
  if (!heard.left.empty()) messages_.hear_leave(heard.left);
  work_.push_back({std::move(heard), {}, 0, Clock::now()});
}

/// The next batch of what was heard first; whether the job has ended.
bool Loop::carry_out_next() {
  if (work_.empty()) return false;
  Work& work = work_.front();
  const Negotiator::Heard& heard = work.heard;
  // A timeline has what was decided together with its beginning, and with its end.
  const bool ends_trace = heard.trace == TraceCommand::stop;
  const auto party = parties_.find(heard.group);
  const bool removed = heard.group != kWorld && party == parties_.end();  // a moment ago
  if (work.next == 0) {
    if (!ends_trace) follow(heard.trace);
    if (!heard.decisions.empty()) tracer_.mark_cycle(work.decided);
  }
  if (!removed) {
    Executor& executor = heard.group == kWorld ? executor_ : party->second.executor;
    if (work.next == 0) {
      for (const auto& decision : heard.decisions) {
        if (!decision.status.ok()) executor.conclude(decision, {decision.status, {}}, work.decided);
      }
      if (heard.fuse_up_to != 0) fuse_up_to(heard.fuse_up_to);
      work.batches = plan(heard.decisions, thresholds_);
    }
    if (work.next < work.batches.size()) {
      const Batch& batch = work.batches[work.next++];
      const Decision& first = heard.decisions[batch.decisions.front()];
      switch (first.request.operation) {
        case Operation::add_process_set: add_process_set(first, work.decided); break;
        case Operation::remove_process_set: remove_process_set(first, work.decided); break;
        default: carry_out(executor, heard.decisions, batch, work.decided);
      }
      if (work.next < work.batches.size()) return false;
    }
  }
  if (ends_trace) follow(heard.trace);
  const bool end = heard.end;
  work_.pop_front();
  return end;
}

/// A batch of a group whose executor on the host is `host`.
void Loop::carry_out(Executor& host, std::span<const Decision> decisions, const Batch& batch,
                     TimePoint decided) {
  const Request& first = decisions[batch.decisions.front()].request;
  if (first.device == DeviceKind::host) {
    const Watch watch(watchdog_, first.operation, first.name, batch.decisions.size() - 1);
    const TimePoint start = Clock::now();
    host.carry_out(decisions, batch, decided);
    if (pace_ && first.operation == Operation::allreduce && host.members().group == kWorld)
      pace_->add(wire_bytes(decisions, batch), Clock::now() - start);
    return;
  }
  if (Executor* gpu = gpu_.executor(host.members(), host.lane(), first))
    return gpu->carry_out(decisions, batch, decided);
  for (const std::size_t i : batch.decisions) {
    Status refused = gpu_.refusal(host.members().group);
    refused.message = fmt::format("'{}': {}", decisions[i].request.name, refused.message);
    host.conclude(decisions[i], {std::move(refused), {}}, decided);
  }
}

void Loop::add_process_set(const Decision& decision, TimePoint decided) {
  const auto& ranks = decision.request.ranks;
  Result result{{}, {}};
  if (const auto known = sets_.number_of(ranks)) {  // two threads of a rank have asked for it
    result.status = {Code::mismatch, fmt::format("'{}': there is one of these ranks already, number {}",
                                                 decision.request.name, *known)};
    return executor_.conclude(decision, std::move(result), decided);
  }
  const Watch watch(watchdog_, decision.request.operation, decision.request.name, 0);
  auto collective = world_.lane.collective->split(ranks);
  table_.add_group(sets_.next());  // before anybody can know the number
  const int number = result.process_set = sets_.add(ranks);
  negotiator_.add_group(number, ranks);
  gpu_.add_group(number, ranks);
  if (collective) {
    alarm_.watch(*collective);
    const auto place = std::lower_bound(ranks.begin(), ranks.end(), world_.control->rank()) - ranks.begin();
    parties_.try_emplace(number, Lane{make_host_stream(), std::move(collective)}, table_, recorder_, tracer_,
                         Members{number, ranks, static_cast<int>(place)}, thresholds_.host);
  }
  executor_.conclude(decision, std::move(result), decided);
}

void Loop::remove_process_set(const Decision& decision, TimePoint decided) {
  const auto number = sets_.number_of(decision.request.ranks);
  if (!number) {  // two threads of a rank have asked for it
    const Status gone{Code::mismatch,
                      fmt::format("'{}': it has been removed already", decision.request.name)};
    return executor_.conclude(decision, {gone, {}}, decided);
  }
  const Watch watch(watchdog_, decision.request.operation, decision.request.name, 0);
  world_.lane.collective->barrier();  // all members have ended what they did in it
  gpu_.remove_group(*number);
  sets_.remove(*number);
  negotiator_.remove_group(*number);
  const auto party = parties_.find(*number);
  if (party != parties_.end()) {
    alarm_.forget(*party->second.lane.collective);
    parties_.erase(party);
  }
  give_back(table_.remove_group(*number), process_set_was_removed(*number));
  executor_.conclude(decision, {{}, {}}, decided);
}

/// Rank 0 alone knows what others wait for. Returns when to look again.
TimePoint Loop::watch_stalls(TimePoint now) {
  if (world_.control->rank() != 0) return TimePoint::max();
  const auto advice = stalls_.look(negotiator_, now);
  for (const auto& warning : advice.warnings) log(LogLevel::warning, warning);
  if (advice.verdict) world_.control->call_off(*advice.verdict);  // which this rank hears, too
  TimePoint next = advice.next;
  for (const int rank : advice.ask) {
    if (rank == world_.control->rank()) {
      stalls_.tell(rank, account());
      next = now;
    } else {
      negotiator_.inquire(rank);
    }
  }
  return next;
}

void Loop::follow_steps() {
  if (world_.control->rank() != 0) return;
  for (const auto& step : negotiator_.take_steps()) {
    const TimePoint now = Clock::now();
    lateness_.add(step, now);
    if (const auto warning = stragglers_.add(step, now)) log(LogLevel::warning, *warning);
    choose_batches(now);
  }
}

// --- how much travels together ---

/// Rank 0 chooses, by trials, or, where the network's pace is not known, by what the first steps show. Within
/// a host the size does not matter, as long as what is packed stays in a cache.
void Loop::prepare_to_choose_batches() {
  if (world_.control->rank() != 0 || world_.control->size() == 1) return;
  const bool host_is_set = config_.fusion_threshold != 0;
  if (!config_.autotune) {
    if (!host_is_set && !world_.rollcall) pace_.emplace();
    return;
  }
  if (host_is_set && config_.gpu_fusion_threshold != 0) {
    return log(
        LogLevel::warning,
        "HORA_AUTOTUNE has nothing to choose: HORA_FUSION_THRESHOLD and HORA_GPU_FUSION_THRESHOLD are set");
  }
  try {
    autotune_.emplace(host_is_set ? thresholds_.cuda : thresholds_.host, config_.autotune_steps,
                      config_.autotune_log);
  } catch (const Error& error) {
    world_.control->fail(error.status());
    throw;
  }
}

/// A step has ended.
void Loop::choose_batches(TimePoint now) {
  if (autotune_) {
    if (const auto bytes = autotune_->end_step(now)) negotiator_.fuse_up_to(*bytes);
    if (!autotune_->has_ended()) return;
    log(LogLevel::warning, autotune_->found());
    autotune_.reset();
  } else if (pace_) {
    const auto bytes = pace_->batch_bytes();
    if (bytes && *bytes != thresholds_.host) {
      log(LogLevel::info, fmt::format("up to {} MiB travel together from now on", *bytes >> 20));
      negotiator_.fuse_up_to(*bytes);
    }
    if (bytes || ++paced_steps_ == kStepsToFindThePace) pace_.reset();
  }
}

/// All ranks do, between the same two decisions.
void Loop::fuse_up_to(std::size_t bytes) {
  if (config_.fusion_threshold == 0) {
    thresholds_.host = bytes;
    executor_.fuse_up_to(bytes);
    for (auto& [group, party] : parties_) party.executor.fuse_up_to(bytes);
  }
  if (config_.gpu_fusion_threshold == 0 && config_.autotune) {
    thresholds_.cuda = bytes;
    gpu_.fuse_up_to(bytes);
  }
}

Health Loop::health() const {
  const TimePoint now = Clock::now();
  Health health;
  health.bytes = recorder_.bytes();
  if (const auto last = recorder_.last()) {
    health.finished = last->sequence;
    health.last = last->name;
    health.since_last = in_milliseconds(now - last->finished);
  }
  const auto under_way = table_.under_way();
  health.in_flight = under_way.size();
  for (const auto& record : under_way) {
    if (health.oldest.size() == kMostTold) break;
    Request request;
    request.operation = record.operation;
    request.dtype = record.dtype;
    request.shape = record.shape;
    health.oldest.push_back({record.name, describe(request), in_milliseconds(now - record.submitted)});
  }
  const auto waits = messages_.under_way(now);
  health.in_flight += waits.size();
  for (const auto& wait : waits)
    health.oldest.push_back({title(wait), kind(wait) + " " + wait.what, wait.since});
  std::stable_sort(health.oldest.begin(), health.oldest.end(),
                   [](const InFlight& one, const InFlight& other) { return one.since > other.since; });
  if (health.oldest.size() > kMostTold) health.oldest.resize(kMostTold);
  return health;
}

void Loop::inquire(std::uint64_t question) {
  inquiry_ = question;
  alert_.ring();
}

/// A rank that is missed and then ends with an error is the cause of the errors that the others get.
void Loop::tell_of_missed() {
  for (const int rank : negotiator_.take_missed()) {
    if (config_.question_fd) say(*config_.question_fd, encode(missed_rank(rank)));
  }
}

void Loop::answer_inquiry(TimePoint now) {
  if (inquiry_.load(std::memory_order_relaxed) == 0) return;
  const std::uint64_t question = inquiry_.exchange(0);
  if (question != 0 && config_.question_fd)
    say(*config_.question_fd, encode(Reply{question, ReplyKind::job, encode(job_health(now))}));
}

JobHealth Loop::job_health(TimePoint now) const {
  JobHealth health;
  health.steps = lateness_.steps();
  if (health.steps > 0) {
    health.steps_per_second = lateness_.rate();
    health.since_step = in_milliseconds(now - lateness_.ended());
    for (int rank = 0; rank < world_.control->size() && health.lateness.size() < kMostLate; ++rank) {
      const auto [median, p99, last] = lateness_.of(rank);
      health.lateness.push_back({rank, median, p99, last});
    }
  }
  const auto waiting = negotiator_.waiting(TimePoint::max());
  health.waiting = waiting.size();
  for (const auto& each : waiting) {
    if (health.longest.size() == kMostTold) break;
    health.longest.push_back({{each.name, each.what, in_milliseconds(now - each.since)},
                              each.step,
                              each.missing,
                              each.missing.size()});
  }
  return health;
}

void Loop::give_back(std::vector<Loan> loans, const Status& status) {
  for (auto& loan : loans) {
    const Status about_it = about(loan.entry->name, status);
    table_.finish(std::move(loan), {about_it, {}, true});
  }
}

void Loop::fail(const Status& status) {
  world_.control->fail(
      {status.code,
       shortened(status.message,
                 kMostReasonBytes)});  // tells nobody anything new if it was a loss that all have heard of
  alarm_.ring(status);
  const Status ended{Code::aborted, status.message};
  world_.messenger->abort(ended);
  auto pending = table_.close(ended);
  std::vector<Record> waiting;
  waiting.reserve(pending.size());
  for (const auto& loan : pending) waiting.push_back(to_record(loan, loan.entry->name, loan.group));
  tell_of_failure(ended, std::move(waiting));
  give_back(std::move(pending), ended);
  gpu_.fail(ended);
  if (world_.control->rank() == 0 && tracer_.on()) send(tracer_.stop(Clock::now()));
  timeline_.finish();
}

void Loop::end() {
  gpu_.drain();
  const Status ended{Code::aborted, "the job has ended: every rank has left it (shutdown)"};
  world_.messenger->abort(ended);
  give_back(table_.close(ended), ended);
  timeline_.finish();
}

void Loop::dump(const std::string& why) const {
  log(LogLevel::warning, tell_of_dump({Code::ok, why}, table_.under_way()));
}

std::string Loop::write_dump(const std::string& why) const {
  return write_dump_of({Code::ok, why}, table_.under_way());
}

/// The path.
std::string Loop::write_dump_of(const Status& why, std::vector<Record> pending) const {
  const int rank = world_.control->rank();
  const TimePoint now = Clock::now();
  const Dump dump{world_.job,
                  world_.members[static_cast<std::size_t>(rank)],
                  world_.control->size(),
                  why,
                  recorder_.records(),
                  std::move(pending),
                  messages_.under_way(now),
                  now};
  const std::lock_guard lock(dump_mutex_);  // both would write the same file
  const Folder folder = config_.dump_directory.empty()
                            ? folder_of_job(std::filesystem::temp_directory_path().string(), world_.job)
                            : Folder::named(config_.dump_directory);
  return hora::write_dump(dump, folder);
}

/// Leaves a dump. The launcher, if there is one, tells of all ranks together why, and where dumps are; a line
/// of this rank alone would say the same once more.
void Loop::tell_of_failure(const Status& why, std::vector<Record> pending) const {
  GaveUp report{why.message, {}};
  std::string trouble;
  try {
    report.dump = std::filesystem::absolute(write_dump_of(why, std::move(pending))).string();
  } catch (const std::exception& error) {  // the job fails for `why`, whatever becomes of the dump
    trouble = error.what();
  }
  const bool told = trouble.empty() && tell_launcher(ReplyKind::gave_up, encode(report));
  const std::string end =
      trouble.empty() ? fmt::format("the last operations of this rank are in {}", report.dump) : trouble;
  log(told ? LogLevel::info : LogLevel::error, fmt::format("{}; {}", why.message, end));
}

/// Writes it; a sentence that says why, and where it is.
std::string Loop::tell_of_dump(const Status& why, std::vector<Record> pending) const {
  try {
    return fmt::format("{}; the last operations of this rank are in {}", why.message,
                       write_dump_of(why, std::move(pending)));
  } catch (const std::exception& error) {  // the job fails for `why`, whatever becomes of the dump
    return fmt::format("{}; {}", why.message, error.what());
  }
}

}  // namespace hora
