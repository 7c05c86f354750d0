// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/executor.h"

#include "core/base/status_of.h"
#include "core/runtime/gpu_completion.h"
#include "core/runtime/host_completion.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace hora {
namespace {

std::unique_ptr<Completion> make_completion(std::optional<GpuSide> gpu, Lane& lane, Finisher& finisher) {
  if (gpu) return std::make_unique<GpuCompletion>(lane, finisher, *std::move(gpu));
  return std::make_unique<HostCompletion>(lane, finisher);
}

}  // namespace

Executor::Executor(Lane& lane, TensorTable& table, Recorder& recorder, Tracer& tracer, Members members,
                   std::size_t fusion_threshold, std::optional<GpuSide> gpu)
    : lane_(lane),
      table_(table),
      tracer_(tracer),
      members_(std::move(members)),
      finisher_(table, recorder, tracer, members_.group),
      completion_(make_completion(std::move(gpu), lane, finisher_)),
      operations_(lane, members_, *completion_, fusion_threshold) {}

void Executor::carry_out(std::span<const Decision> decisions, const Batch& batch, TimePoint decided) {
  completion_->make_room();
  RunningBatch running{decided, Clock::now(), static_cast<int>(batch.decisions.size())};
  const Status failure = move(decisions, batch, running);
  running.outgrown = operations_.take_outgrown();
  if (table_.takes_only_computed())  // else freeing them would wait for a graph
    kept_.insert(kept_.end(), running.outgrown.begin(), running.outgrown.end());
  completion_->complete(std::move(running), failure);
  if (!failure.ok()) throw Error(failure);
}

/// Returns ok, or the error of the batch, such as one that a user's `allocate` throws.
Status Executor::move(std::span<const Decision> decisions, const Batch& batch, RunningBatch& running) {
  operations_.note_spans(tracer_.on());
  running.items.reserve(batch.decisions.size());
  try {
    for (const std::size_t i : batch.decisions) running.items.push_back(borrow(decisions[i]));
    completion_->begin(running.items, table_.takes_only_computed());
    operations_.carry_out(running);
  } catch (const std::exception& error) {
    return status_of(error);
  }
  if (tracer_.on()) running.spans = operations_.spans_of(*running.items.front().decision, running.started);
  return {};
}

BatchItem Executor::borrow(const Decision& decision) {
  const Result result{{}, decision.request.shape, decision.contributed, decision.rows};
  auto loan = table_.take(members_.group, decision.request.name);
  if (loan) return {&decision, *std::move(loan), result};
  if (std::binary_search(decision.joined.begin(), decision.joined.end(), members_.place))
    return stand_in(decision);
  throw Error(Code::internal,
              fmt::format("'{}' was decided, but this rank does not have it", decision.request.name));
}

BatchItem Executor::stand_in(const Decision& decision) {
  BatchItem item{&decision, {std::make_shared<Entry>()}, {}, completion_->stand_in(decision.request)};
  Entry& entry = *item.loan.entry;
  entry.input = entry.output = item.memory.get();
  entry.allocate = [memory = entry.output](const std::vector<std::int64_t>&) { return memory; };
  return item;
}

void Executor::conclude(const Decision& decision, Result result, TimePoint decided) {
  result.status = table_.end_code().of(std::move(result.status));  // the code may mean that a rank has left
  auto loan = table_.take(members_.group, decision.request.name);
  if (!loan) return;
  RunningBatch alone{decided, decided};
  alone.items.push_back({&decision, *std::move(loan), std::move(result)});
  finisher_.finish(std::move(alone), {}, true);
}

}  // namespace hora
