// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/loop.h"

#include "core/base/log.h"

#include <fmt/format.h>

#include <algorithm>

namespace hora {
namespace {

constexpr std::chrono::milliseconds kLookAtNccl{100};  // whether it has failed, while it has something to do

/// Rank 0's, of several. The other ranks hear it if it cannot be made.
std::optional<BatchSizing> make_batch_sizing(World& world, const Config& config,
                                             const FusionThresholds& thresholds) {
  if (world.control->rank() != 0 || world.control->size() == 1) return std::nullopt;
  try {
    return BatchSizing(config, thresholds, world.vote != nullptr);
  } catch (const Error& error) {
    world.control->fail(error.status());
    throw;
  }
}

}  // namespace

Loop::Loop(World& world, const Config& config, TensorTable& table, ProcessSets& sets, Timeline& timeline,
           Delays& delays, OwnGpu& gpu, Messages& messages)
    : world_(world),
      table_(table),
      sets_(sets),
      delays_(delays),
      messages_(messages),
      wake_up_(world.vote ? world.vote->wake_up() : own_wake_up_),
      negotiator_(*world.control, world.control->size() > 1 ? world.vote.get() : nullptr),
      recorder_(config.recorded_operations),
      tracing_(timeline, negotiator_, world.control->rank()),
      groups_(world, config, *sets.ranks_of(kWorld), table, recorder_, tracing_.tracer(), aborter_, gpu,
              [this](const Status& why) {
                aborter_.ring(why);
                wake_up_.ring();
              }),
      state_(world, config, table, messages, recorder_),
      job_(world, config, negotiator_, state_),
      sizing_(make_batch_sizing(world, config, groups_.thresholds())),
      watchdog_(
          config.operation_timeout, [this] { return aborter_.progress(); },
          [this](const Status& why) { world_.control->call_off(why); }) {
  // A rank may die while the engine waits for it inside a collective: only another thread can end that.
  world.control->on_loss([this](const Status& why) {
    aborter_.ring(why);
    groups_.gpu().interrupt(why);
  });
  world.control->on_event([this] { wake_up_.ring(); });
  delays_.on_change([this] { wake_up_.ring(); });
  messages_.watch(job_.first_limit(), [this] { wake_up_.ring(); });
}

Loop::~Loop() {
  messages_.watch({}, {});
  delays_.on_change({});
  world_.control->on_event({});
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

Loop::Turn Loop::turn_or_throw(bool pressing) {
  const TimePoint now = Clock::now();
  if (!left_) ask(now);
  tracing_.announce();
  if (const auto delay = delays_.take_change(now)) negotiator_.report(Report::delay, encode(*delay));
  groups_.gpu().check();
  job_.answer(now);
  const TimePoint look_at_messages = watch_messages(now);
  const bool listens =
      work_.empty();  // else what is new may need what is to be made first, such as a process set
  Turn turn;
  if (listens) turn.next = hear(now, pressing);
  turn.over = carry_out_next();
  if (const auto divergence = negotiator_.take_divergence(); !divergence.empty())
    log(LogLevel::info, divergence);
  tracing_.send_some();
  follow_steps();
  turn.more = !listens || !work_.empty() || negotiator_.has_more();
  if (turn.over) return turn;
  // Last, as these depend on what began in this turn.
  turn.next = std::min({turn.next, negotiator_.next_look(), look_at_messages});
  if (groups_.gpu().busy()) turn.next = std::min(turn.next, now + kLookAtNccl);
  return turn;
}

// --- what this rank has to say ---

void Loop::ask(TimePoint now) {
  const auto reason = told_to_leave();  // first: what was submitted before that is still asked for
  if (reason && !reason->empty()) throw Error(Code::aborted, *reason);  // which `leave` has told the others
  for (const auto& [group, requests] : table_.take_requests()) negotiator_.ask(group, requests, now);
  if (reason && !std::exchange(leaves_, true)) messages_.leave();
  if (leaves_ && messages_.has_left()) leave(now);
}

void Loop::leave(const std::string& reason) {
  {
    const std::lock_guard lock(leaving_mutex_);
    if (leaving_) return;
    leaving_ = reason;
  }
  wake_up_.ring();
  if (reason.empty()) return;
  // The engine may be waiting for other ranks, or for a GPU. First the reason: what breaks follows from it.
  const Status why{Code::aborted, shortened(reason, kMostReasonBytes)};
  world_.control->fail(why);
  aborter_.ring(why);
  groups_.gpu().interrupt(why);
}

std::optional<std::string> Loop::told_to_leave() {
  const std::lock_guard lock(leaving_mutex_);
  return leaving_;
}

void Loop::leave(TimePoint now) {
  tracing_.stop();
  left_ = true;  // tensors that are submitted from now on wait for the end, and get its status
  negotiator_.leave(now);
}

/// Tells rank 0 which messages of this rank have waited for long, when there is something new to tell.
/// Returns when to look again.
TimePoint Loop::watch_messages(TimePoint now) {
  if (now >= messages_.due()) {
    if (const auto late = messages_.take_late(now)) negotiator_.report(Report::waits, encode(*late));
  }
  return messages_.due();
}

void Loop::inquire(std::uint64_t question) {
  job_.inquire(question);
  wake_up_.ring();
}

// --- what this rank hears ---

/// Returns when to hear again, if nothing rings before.
TimePoint Loop::hear(TimePoint now, bool pressing) {
  for (auto& heard : negotiator_.hear(now, pressing)) begin(std::move(heard));
  job_.tell_of_missed();
  collect_reports(now);
  return world_.control->rank() == 0 ? job_.look(now) : TimePoint::max();
}

void Loop::begin(Negotiator::Heard heard) {
  if (heard.inquiry) negotiator_.report(Report::account, encode(state_.account()));
  if (!heard.left.empty()) messages_.hear_leave(heard.left);
  work_.push_back({std::move(heard), {}, 0, Clock::now()});
}

void Loop::collect_reports(TimePoint now) {
  for (const auto& told : negotiator_.take_reports()) {
    if (told.kind == Report::trace) {
      tracing_.take(told.rank, decode_trace(told.content));
    } else {
      job_.take(told, now);
    }
  }
}

void Loop::follow_steps() {
  if (world_.control->rank() != 0) return;
  for (const auto& step : negotiator_.take_steps()) {
    const TimePoint now = Clock::now();
    job_.end_step(step, now);
    if (!sizing_) continue;
    if (const auto bytes = sizing_->end_step(now, groups_.thresholds().host)) negotiator_.fuse_up_to(*bytes);
  }
}

// --- what is done ---

/// The next batch of what was heard first; whether the job has ended.
bool Loop::carry_out_next() {
  if (work_.empty()) return false;
  Work& work = work_.front();
  const Negotiator::Heard& heard = work.heard;
  // A timeline has what was decided together with its beginning, and with its end.
  const bool ends_trace = heard.trace == TraceCommand::stop;
  if (work.next == 0) {
    if (!ends_trace) tracing_.follow(heard.trace);
    if (!heard.decisions.empty()) tracing_.tracer().mark_cycle(work.decided);
  }
  if (Executor* host = groups_.find(heard.group)) {  // else it was removed a moment ago
    carry_out_next(*host, work);
    if (work.next < work.batches.size()) return false;
  }
  if (ends_trace) tracing_.follow(heard.trace);
  const bool end = heard.end;
  work_.pop_front();
  return end;
}

void Loop::carry_out_next(Executor& host, Work& work) {
  const Negotiator::Heard& heard = work.heard;
  if (work.next == 0) {
    for (const auto& decision : heard.decisions) {
      if (!decision.status.ok()) host.conclude(decision, {decision.status, {}}, work.decided);
    }
    if (heard.fuse_up_to != 0) groups_.fuse_up_to(heard.fuse_up_to);
    work.batches = plan(heard.decisions, groups_.thresholds());
  }
  if (work.next == work.batches.size()) return;
  const Batch& batch = work.batches[work.next++];
  const Decision& first = heard.decisions[batch.decisions.front()];
  switch (first.request.operation) {
    case Operation::add_process_set: return add_process_set(first, work.decided);
    case Operation::remove_process_set: return remove_process_set(first, work.decided);
    default: return carry_out(host, heard.decisions, batch, work.decided);
  }
}

/// A batch of a group whose executor on the host is `host`.
void Loop::carry_out(Executor& host, std::span<const Decision> decisions, const Batch& batch,
                     TimePoint decided) {
  const Request& first = decisions[batch.decisions.front()].request;
  const int group = host.members().group;
  if (first.device == DeviceKind::host) {
    const Watch watch(watchdog_, first.operation, first.name, batch.decisions.size() - 1);
    const TimePoint start = Clock::now();
    host.carry_out(decisions, batch, decided);
    if (sizing_ && sizing_->measures() && first.operation == Operation::allreduce && group == kWorld)
      sizing_->add(wire_bytes(decisions, batch), Clock::now() - start);
    return;
  }
  if (Executor* gpu = groups_.on_gpu(host, first)) return gpu->carry_out(decisions, batch, decided);
  for (const std::size_t i : batch.decisions) {
    Status refused = groups_.refusal(group);
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
    return groups_.world().conclude(decision, std::move(result), decided);
  }
  const Watch watch(watchdog_, decision.request.operation, decision.request.name, 0);
  const int number = result.process_set = sets_.next();
  groups_.add(number, ranks);
  table_.add_group(number);  // before anybody can know the number
  sets_.add(ranks);
  negotiator_.add_group(number, ranks);
  groups_.world().conclude(decision, std::move(result), decided);
}

void Loop::remove_process_set(const Decision& decision, TimePoint decided) {
  const auto number = sets_.number_of(decision.request.ranks);
  if (!number) {  // two threads of a rank have asked for it
    const Status gone{Code::mismatch,
                      fmt::format("'{}': it has been removed already", decision.request.name)};
    return groups_.world().conclude(decision, {gone, {}}, decided);
  }
  const Watch watch(watchdog_, decision.request.operation, decision.request.name, 0);
  world_.lane.collective->barrier();  // all members have ended what they did in it
  groups_.remove(*number);
  sets_.remove(*number);
  negotiator_.remove_group(*number);
  give_back(table_.remove_group(*number), process_set_was_removed(*number));
  groups_.world().conclude(decision, {{}, {}}, decided);
}

// --- the end ---

void Loop::give_back(std::vector<Loan> loans, const Status& status) {
  for (auto& loan : loans) {
    const Status about_it = about(loan.entry->name, status);
    table_.finish(std::move(loan), {about_it, {}, true});
  }
}

void Loop::fail(const Status& status) {
  // Tells nobody anything new if it was a loss that all have heard of.
  world_.control->fail({status.code, shortened(status.message, kMostReasonBytes)});
  aborter_.ring(status);
  const Status ended{table_.end_code().of(Code::aborted), status.message};
  world_.messenger->abort(ended);
  auto pending = table_.close(ended);
  std::vector<Record> waiting;
  waiting.reserve(pending.size());
  for (const auto& loan : pending) waiting.push_back(to_record(loan, loan.entry->name, loan.group));
  state_.tell_of_failure(ended, std::move(waiting));
  give_back(std::move(pending), ended);
  groups_.gpu().fail(ended);
  if (world_.control->rank() == 0) tracing_.stop();
  tracing_.finish();
}

void Loop::end() {
  groups_.gpu().drain();
  const Status ended{table_.end_code().of(Code::aborted),
                     "the job has ended: every rank has left it (shutdown)"};
  world_.messenger->abort(ended);
  give_back(table_.close(ended), ended);
  tracing_.finish();
}

}  // namespace hora
