// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/work_queue.h"

#include <fmt/format.h>

#include <utility>

namespace hora {

void WorkQueue::add(Negotiator::Heard heard) { work_.push_back({std::move(heard), Clock::now()}); }

bool WorkQueue::carry_out_next() {
  if (work_.empty()) return false;
  Work& work = work_.front();
  // A trace contains the decisions of the verdict that begins it, and those of the verdict that ends it.
  const bool ends_trace = work.heard.trace == TraceCommand::stop;
  if (work.next == 0) {
    if (!ends_trace) tracing_.follow(work.heard.trace);
    if (!work.heard.decisions.empty()) tracing_.tracer().mark_cycle(work.decided);
  }
  if (Executor* host = groups_.find(work.heard.group)) {  // null: the group has just been removed
    carry_out_next(*host, work);
    if (work.next < work.batches.size()) return false;
  }
  const bool end = work.heard.end;
  if (!end) end_groups(work.heard.ended);
  if (ends_trace) tracing_.follow(work.heard.trace);
  work_.pop_front();
  return end;
}

void WorkQueue::end_groups(const std::vector<int>& groups) {
  for (const int group : groups) {
    const Watch watch(watchdog_, Operation::remove_process_set, kRemovalName, 0);
    changes_.end(group, false);  // its members have gone on long ago
  }
}

void WorkQueue::carry_out_next(Executor& host, Work& work) {
  const Negotiator::Heard& heard = work.heard;
  if (work.next == 0) {
    for (const auto& decision : heard.decisions) {
      if (!decision.status.ok()) host.conclude(decision, {decision.status, {}}, work.decided);
    }
    if (heard.fuse_up_to != 0) groups_.fuse_up_to(heard.fuse_up_to);
    work.batches = plan(heard.decisions, groups_.thresholds());
  }
  if (work.next < work.batches.size())
    carry_out(host, heard.decisions, work.batches[work.next++], work.decided);
}

/// Carries out a batch of a group. `host`: the group's executor for tensors in the host's memory.
void WorkQueue::carry_out(Executor& host, std::span<const Decision> decisions, const Batch& batch,
                          TimePoint decided) {
  const Decision& first = decisions[batch.decisions.front()];
  if (first.request.device == DeviceKind::host) return carry_out_on_host(host, decisions, batch, decided);
  if (Executor* gpu = groups_.on_gpu(host, first.request)) return gpu->carry_out(decisions, batch, decided);
  for (const std::size_t i : batch.decisions) {
    Status refused = groups_.refusal(host.members().group);
    refused.message = fmt::format("'{}': {}", decisions[i].request.name, refused.message);
    host.conclude(decisions[i], {std::move(refused), {}}, decided);
  }
}

void WorkQueue::carry_out_on_host(Executor& host, std::span<const Decision> decisions, const Batch& batch,
                                  TimePoint decided) {
  const Decision& first = decisions[batch.decisions.front()];
  if (first.request.operation == Operation::join)
    groups_.gpu().drain();  // stand-ins: freeing them later would wait for graphs that run by then
  const Watch watch(watchdog_, first.request.operation, first.request.name, batch.decisions.size() - 1);
  switch (first.request.operation) {
    case Operation::add_process_set: return changes_.add(first, decided);
    case Operation::remove_process_set: return changes_.remove(first, decided);
    default: break;
  }
  const TimePoint start = Clock::now();
  host.carry_out(decisions, batch, decided);
  if (sizer_.measures(first.request, host.members().group))
    sizer_.add(wire_bytes(decisions, batch), Clock::now() - start);
}

}  // namespace hora
