// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/loop.h"

#include "core/base/status_of.h"

#include <algorithm>

namespace hora {
namespace {

constexpr std::chrono::microseconds kLookAtInputs{50};  // between looks whether the GPU has computed inputs
constexpr std::chrono::milliseconds kLookAtNccl{100};  // between checks for errors of NCCL, while it has work

}  // namespace

Loop::Loop(World& world, const Config& config, TensorTable& table, ProcessSets& sets, Timeline& timeline,
           Delays& delays, OwnGpu& gpu, Messages& messages)
    : world_(world),
      table_(table),
      messages_(messages),
      wake_up_(world.vote ? world.vote->wake_up() : own_wake_up_),
      negotiator_(*world.control, world.control->size() > 1 ? world.vote.get() : nullptr),
      observation_(world, config, table, timeline, delays, messages, negotiator_, wake_up_),
      groups_(world, config, *sets.ranks_of(kWorld), table, observation_.recorder(),
              observation_.tracing().tracer(), aborter_, gpu,
              {[this](const Status& why) {
                 aborter_.ring(why);
                 wake_up_.ring();
               },
               [this] {
                 if (table_.has_requests()) wake_up_.ring();
               }}),
      sizer_(world, config, groups_, negotiator_),
      changes_(sets, groups_, table, negotiator_),
      watchdog_(
          config.operation_timeout, [this] { return aborter_.progress(); },
          [this](const Status& why) { world_.control->call_off(why); }),
      work_(groups_, changes_, sizer_, observation_.tracing(), watchdog_),
      leaving_(messages, observation_.tracing(), negotiator_) {
  // A rank may die while the engine waits for it inside a collective. Only another thread can end that.
  world.control->on_loss([this](const Status& why) { interrupt(why); });
  world.control->on_event([this] { wake_up_.ring(); });
}

Loop::~Loop() {
  world_.control->on_event({});
  world_.control->on_loss({});
}

Loop::Turn Loop::turn(bool pressing) noexcept {
  try {
    const Turn turn = turn_or_throw(pressing);
    if (turn.over) end();
    return turn;
  } catch (const std::exception& error) {
    fail(status_of(error));
  }
  return {true, false, TimePoint::max()};
}

Loop::Turn Loop::turn_or_throw(bool pressing) {
  const TimePoint now = Clock::now();
  ask(now);
  groups_.gpu().check();
  const TimePoint next_tell = observation_.tell(now);
  const bool listens = work_.empty();  // a new verdict may need a process set that queued work adds
  Turn turn;
  if (listens) turn.next = hear(now, pressing);
  turn.over = work_.carry_out_next();
  observation_.end_turn();
  follow_steps();
  turn.more = !listens || !work_.empty() || negotiator_.has_more();
  if (turn.over) return turn;
  // This comes last, because these times depend on the work that began in this turn.
  turn.next = std::min({turn.next, negotiator_.next_look(), next_tell});
  if (groups_.gpu().under_way() > 0) turn.next = std::min(turn.next, now + kLookAtNccl);
  if (waits_for_inputs()) turn.next = std::min(turn.next, now + kLookAtInputs);
  return turn;
}

/// Tells rank 0 what this rank is ready for.
void Loop::ask(TimePoint now) {
  if (const auto why = leaving_.stopped()) throw Error(*why);  // `stop` has told the other ranks
  if (leaving_.has_left()) return;
  bool leaves = leaving_.asked();  // read first: tensors submitted before that are still asked for
  const TakeOnGpu on_gpu = leaves ? TakeOnGpu::all : take_on_gpu();
  for (const auto& [group, requests] : table_.take_requests(on_gpu)) {
    negotiator_.ask(group, requests, now);
    if (group == kWorld || requests.back().operation != Operation::remove_process_set) continue;
    if (auto removal = table_.take(group, kRemovalName)) table_.finish(*std::move(removal), {{}, {}});
  }
  leaves = leaves && !waits_for_inputs();
  if (leaves) leaving_.go_on(now);
}

/// The host gives work to the GPU long before the GPU does it. If all requests were asked for at once, each
/// batch would have one tensor. So while one batch is under way, another one is asked for, of the tensors
/// that are computed. While two are, the requests wait, and the end of a batch rings for this loop. Batches
/// under way end without any request that waits: all ranks have decided them, and their inputs were given to
/// the GPU before.
TakeOnGpu Loop::take_on_gpu() {
  const std::size_t under_way = groups_.gpu().under_way() + (work_.empty() ? 0 : 1);
  if (under_way == 0) return TakeOnGpu::all;
  return under_way == 1 ? TakeOnGpu::ready : TakeOnGpu::none;
}

/// Whether requests wait until the GPU has computed their inputs, and nothing rings for this loop then.
bool Loop::waits_for_inputs() const { return table_.takes_only_computed() && table_.has_requests(); }

/// Queues the verdicts that have come. Returns the latest time for the next call.
TimePoint Loop::hear(TimePoint now, bool pressing) {
  for (auto& heard : negotiator_.hear(now, pressing)) {
    if (heard.inquiry) observation_.answer_inquiry();
    if (!heard.left.empty()) messages_.hear_leave(heard.left);
    work_.add(std::move(heard));
  }
  return observation_.hear(now);
}

void Loop::follow_steps() {
  if (world_.control->rank() != 0) return;
  for (const auto& step : negotiator_.take_steps()) {
    const TimePoint now = Clock::now();
    observation_.end_step(step, now);
    sizer_.end_step(now);
  }
}

void Loop::leave() {
  leaving_.ask();
  wake_up_.ring();
}

void Loop::stop(const Status& why) {
  const Status told{why.code, shortened(why.message, kMostReasonBytes)};
  if (!leaving_.stop(told)) return;
  wake_up_.ring();
  // The engine may be waiting for other ranks, or for a GPU. The reason is sent first, because the errors
  // that follow are caused by it.
  world_.control->fail(told);
  interrupt(told);
}

/// Ends every operation that the engine may be blocked in. Thread-safe.
void Loop::interrupt(const Status& why) {
  aborter_.ring(why);
  groups_.gpu().interrupt(why);
}

void Loop::fail(const Status& status) {
  leaving_.stop(status);  // nothing else stops it from here on
  // This changes nothing for other ranks if the failure is a lost rank that all have heard of.
  world_.control->fail({status.code, shortened(status.message, kMostReasonBytes)});
  aborter_.ring(status);
  const Status ended{table_.end_code().of(Code::aborted), status.message};
  world_.messenger->abort(ended);
  auto pending = table_.close(ended);
  observation_.tell_of_failure(ended, pending);
  table_.give_back(std::move(pending), ended);
  groups_.gpu().fail(ended);
  observation_.finish(true);
}

void Loop::end() {
  groups_.gpu().drain();
  const Code code = table_.end_code().of(Code::aborted);
  const Status ended{code, code == Code::aborted ? "the job has ended: every rank has left it (shutdown)"
                                                 : "the generation has ended: every rank has left it"};
  leaving_.stop(ended);
  world_.messenger->abort(ended);
  table_.give_back(table_.close(ended), ended);
  observation_.finish(false);
}

}  // namespace hora
