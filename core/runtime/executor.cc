// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/executor.h"

#include <fmt/format.h>

namespace hora {
namespace {

std::size_t count(const std::vector<std::int64_t>& shape, DType dtype) {
  return static_cast<std::size_t>(elements(shape, dtype));
}

}  // namespace

void Executor::carry_out(std::span<const Decision> decisions, const Batch& batch, TimePoint decided) {
  const TimePoint started = Clock::now();
  std::vector<Item> items;
  items.reserve(batch.decisions.size());
  try {
    for (const std::size_t i : batch.decisions) items.push_back(borrow(decisions[i]));
    move(items);
  } catch (const std::exception& error) {  // also what `allocate` throws, which is not ours
    const auto* ours = dynamic_cast<const Error*>(&error);
    const Code code = ours != nullptr ? ours->code() : Code::internal;
    for (auto& item : items) {
      item.result.status = {
          code, fmt::format("{} ('{}' holds undefined values)", error.what(), item.loan.entry.name)};
      give_back(std::move(item), decided, started);
    }
    throw Error(code, error.what());
  }
  for (auto& item : items) give_back(std::move(item), decided, started);
}

Executor::Item Executor::borrow(const Decision& decision) {
  auto loan = table_.take(decision.request.name);
  if (!loan) {
    throw Error(Code::internal,
                fmt::format("'{}' was decided, but this rank does not have it", decision.request.name));
  }
  return {&decision, *std::move(loan), {{}, decision.request.shape, decision.contributed, decision.rows}};
}

void Executor::refuse(const Decision& decision, TimePoint decided) {
  auto loan = table_.take(decision.request.name);
  if (loan) give_back({&decision, *std::move(loan), {decision.status, {}, true, {}}}, decided, decided);
}

void Executor::move(std::vector<Item>& items) {
  switch (items.front().decision->request.operation) {
    case Operation::allreduce: return allreduce(items);
    case Operation::broadcast: return broadcast(items.front());
    case Operation::allgather: return allgather(items.front());
    case Operation::barrier: return;  // that all ranks have asked for it is all there is to it
  }
}

void Executor::allreduce(std::vector<Item>& items) {
  const Decision& first = *items.front().decision;
  if (!first.contributed) return;
  std::vector<Piece> pieces;
  for (auto& [decision, loan, result] : items) {
    const std::size_t length = count(decision->request.shape, decision->request.dtype);
    if (length == 0) continue;
    if (loan.entry.absent) {
      lane_.stream->zero(loan.entry.output, length * size_of(decision->request.dtype));
      loan.entry.input = loan.entry.output;
    }
    pieces.push_back({loan.entry.input, loan.entry.output, length});
  }
  if (pieces.empty()) return;
  const bool average = first.request.op == ReduceOp::average;
  packer_.allreduce(pieces, first.request.dtype,
                    {first.request.wire, average ? ReduceOp::sum : first.request.op, first.request.prescale,
                     first.request.postscale, average ? size_ : 1});
}

void Executor::broadcast(Item& item) {
  const Request& request = item.decision->request;
  const std::size_t bytes = count(request.shape, request.dtype) * size_of(request.dtype);
  if (bytes == 0) return;
  const Entry& entry = item.loan.entry;
  if (rank_ == request.root && entry.output != entry.input)
    lane_.stream->copy(entry.output, entry.input, bytes);
  lane_.collective->broadcast(entry.output, bytes, request.root);
}

void Executor::allgather(Item& item) {
  const Request& request = item.decision->request;
  void* output = item.loan.entry.allocate(request.shape);
  const std::size_t total = count(request.shape, request.dtype) * size_of(request.dtype);
  if (total == 0) return;
  const std::size_t row = total / static_cast<std::size_t>(request.shape.front());
  std::vector<std::size_t> bytes;
  for (const auto rows : item.decision->rows) bytes.push_back(static_cast<std::size_t>(rows) * row);
  lane_.collective->allgather(item.loan.entry.input, output, bytes);
}

void Executor::give_back(Item item, TimePoint decided, TimePoint started) {
  const Entry& entry = item.loan.entry;
  recorder_.add({entry.name, entry.operation, entry.dtype, entry.shape, item.loan.submitted, decided, started,
                 Clock::now(), item.result.status.code});
  table_.finish(std::move(item.loan), std::move(item.result));
}

}  // namespace hora
