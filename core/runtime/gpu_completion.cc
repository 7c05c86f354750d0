// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/gpu_completion.h"

#include "core/base/operations.h"
#include "core/base/status_of.h"
#include "core/device/neutral.h"

#include <fmt/format.h>

#include <utility>

namespace hora {
namespace {

/// "allreduce of 'layer1.weight' and 3 more tensors"
std::string describe_items(const std::vector<BatchItem>& items) {
  const Request& first = items.front().decision->request;
  const std::string text = fmt::format("{} of '{}'", name(first.operation), first.name);
  return items.size() == 1 ? text : fmt::format("{} and {} more tensors", text, items.size() - 1);
}

/// Gives back tensors whose work was done by the GPU from the batch's start until now.
void land(Finisher& finisher, RunningBatch batch, const Status& status, bool ended) {
  batch.spans = {{Stage::transfer, batch.started, Clock::now()}};
  finisher.finish(std::move(batch), status, ended);
}

}  // namespace

void GpuCompletion::begin(const std::vector<BatchItem>& items, bool keeps_memory) {
  std::vector<Readiness> inputs;
  inputs.reserve(items.size());
  for (const auto& item : items) inputs.push_back(item.loan.ready);
  inputs_ = latest(inputs);
  for (const auto& input : inputs_) lane_.stream->wait(*input);
  if (gpu_.gpu_wait == nullptr) return;
  gpu_.gpu_wait->what = describe_items(items);
  gpu_.gpu_wait->start = lane_.stream->mark();
  gpu_.gpu_wait->keeps_memory = keeps_memory;
}

/// After a failure, too, the mark is waited for: work that was put on the stream still uses the tensors.
void GpuCompletion::complete(RunningBatch batch, const Status& failure) {
  if (batch.items.empty()) return;
  try {
    launch(batch, failure);
  } catch (const std::exception& error) {  // nothing can tell whether the GPU still uses the tensors
    const Status why = failure.ok() ? status_of(error) : failure;
    land(finisher_, std::move(batch), why, false);
    throw Error(why);
  }
}

/// If it throws, the batch is as it was, but for handles that were launched.
void GpuCompletion::launch(RunningBatch& batch, const Status& failure) {
  Flight flight;
  flight.end = lane_.stream->mark();
  flight.what = describe_items(batch.items);
  if (failure.ok()) {
    finisher_.launch(batch, flight.end);
    if (let_graphs_go_on(batch.items)) flight.end = lane_.stream->mark();
  }
  flight.inputs = std::exchange(inputs_, {});
  const auto shared = std::make_shared<RunningBatch>(std::move(batch));
  for (auto& item : shared->items) item.decision = nullptr;  // the decision goes before the flight ends
  flight.finish = [&finisher = finisher_, shared, failure](const Status& status, bool ended) {
    land(finisher, std::move(*shared), status.ok() ? failure : status, ended);
  };
  gpu_.completer->add(std::move(flight));
}

/// Names are free by now: what comes after the graph may use them again. Returns whether a graph has asked
/// for any of the items.
bool GpuCompletion::let_graphs_go_on(const std::vector<BatchItem>& items) {
  bool any = false;
  for (const auto& item : items) {
    if (!item.loan.run) continue;
    item.loan.run->launched(*lane_.stream);
    any = true;
  }
  return any;
}

std::shared_ptr<std::byte> GpuCompletion::stand_in(const Request& request) {
  const std::size_t bytes = byte_count(request);
  auto memory = gpu_.gpu->allocate(bytes);
  if (traits(request.operation).from_joined != FromJoined::neutral) return memory;
  const auto neutral = gpu_.gpu->allocate_pinned(bytes);
  fill_neutral(neutral.get(), request.dtype, request.op, element_count(request));
  lane_.stream->copy(memory.get(), neutral.get(), bytes);
  return {memory.get(), [both = std::pair(memory, neutral)](std::byte*) {}};  // until the flight ends
}

void* GpuCompletion::allocate(BatchItem& item, const std::vector<std::int64_t>& shape) {
  const Entry& entry = *item.loan.entry;
  if (!item.loan.handle) return entry.allocate(shape);  // a stand-in
  if (entry.output_rows && takes_result(item, shape)) return entry.output;
  if (!entry.allocate) {
    const auto bytes = static_cast<std::size_t>(elements(shape, entry.dtype)) * size_of(entry.dtype);
    item.memory = gpu_.gpu->allocate_between(*lane_.stream, entry.stream, bytes);
    if (entry.accept) entry.accept(item.memory, shape);
    return item.memory.get();
  }
  void* output = entry.allocate(shape);
  try {
    lane_.stream->wait(*inputs_.emplace_back(gpu_.gpu->mark(entry.stream)));  // the user's stream orders it
  } catch (const Error& error) {
    throw Error(
        error.code(),
        fmt::format("'{}': its output is allocated on the stream that it was submitted with, when all "
                    "ranks have said how much they bring: {}",
                    entry.name, error.what()));
  }
  if (gpu_.gpu_wait != nullptr) gpu_.gpu_wait->start = lane_.stream->mark();
  return output;
}

void GpuCompletion::on_host(std::span<const Segment> segments, std::size_t each, const HostWork& work) {
  for (const auto& segment : segments) {
    const std::size_t bytes = segment.count * each;
    gpu_.staged->visit({segment.input, bytes, segment.output, bytes},
                       [&](Collective& host, std::byte* memory) {
                         const Segment visited{memory, memory, segment.count};
                         work(host, {&visited, 1});
                       });
  }
}

}  // namespace hora
