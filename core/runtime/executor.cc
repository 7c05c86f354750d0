// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/executor.h"

#include "core/base/memory.h"
#include "core/compose/adasum.h"
#include "core/compose/scan.h"
#include "core/device/neutral.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <numeric>

namespace hora {
namespace {

std::size_t count(const std::vector<std::int64_t>& shape, DType dtype) {
  return static_cast<std::size_t>(elements(shape, dtype));
}

/// The bytes of one row, an element of the first dimension.
std::size_t row_bytes(const Request& request) {
  std::vector<std::int64_t> row = request.shape;
  row.front() = 1;
  return count(row, request.dtype) * size_of(request.dtype);
}

/// The bytes of so many rows each; none if there are no bytes at all, and nothing to move.
std::vector<std::size_t> bytes_of(const std::vector<std::int64_t>& rows, std::size_t row) {
  std::vector<std::size_t> bytes;
  std::transform(rows.begin(), rows.end(), std::back_inserter(bytes),
                 [row](std::int64_t count) { return static_cast<std::size_t>(count) * row; });
  const bool nothing = std::all_of(bytes.begin(), bytes.end(), [](std::size_t count) { return count == 0; });
  return nothing ? std::vector<std::size_t>() : bytes;
}

Reduction reduction_of(const Decision& decision) {
  const Request& request = decision.request;
  const bool average = request.op == ReduceOp::average;
  return {request.wire, average ? ReduceOp::sum : request.op, request.prescale, request.postscale,
          average ? decision.divisor : 1};
}

}  // namespace

void Executor::carry_out(std::span<const Decision> decisions, const Batch& batch, TimePoint decided) {
  if (gpu_) gpu_->completer->make_room();
  Course course{decided, Clock::now(), {}, static_cast<int>(batch.decisions.size())};
  packer_.note_spans(tracer_.on());
  std::vector<Item> items;
  items.reserve(batch.decisions.size());
  try {
    for (const std::size_t i : batch.decisions) items.push_back(borrow(decisions[i]));
    run(items);
    if (gpu_) return launch(std::move(items), course, {});
  } catch (const std::exception& error) {  // also what `allocate` throws, which is not ours
    const auto* ours = dynamic_cast<const Error*>(&error);
    const Status why{ours != nullptr ? ours->code() : Code::internal, error.what()};
    fail(std::move(items), why, course);
    throw Error(why);
  }
  if (tracer_.on()) course.spans = spans_of(*items.front().decision, course.started);
  land(items, course, {}, true, flag_.get());
}

void Executor::run(std::vector<Item>& items) {
  if (gpu_) {
    std::vector<Readiness> inputs;
    inputs.reserve(items.size());
    for (const auto& item : items) inputs.push_back(item.loan.ready);
    inputs_ = latest(inputs);
    for (const auto& input : inputs_) lane_.stream->wait(*input);
    if (gpu_->gpu_wait != nullptr) {
      gpu_->gpu_wait->what = describe(items);
      gpu_->gpu_wait->start = lane_.stream->mark();
    }
  }
  flag_ = items.front().decision->request.check_finite ? lane_.stream->make_flag() : nullptr;
  move(items);
}

/// "allreduce of 'layer1.weight' and 3 more tensors"
std::string Executor::describe(const std::vector<Item>& items) {
  const Request& first = items.front().decision->request;
  const std::string text = fmt::format("{} of '{}'", name(first.operation), first.name);
  return items.size() == 1 ? text : fmt::format("{} and {} more tensors", text, items.size() - 1);
}

void Executor::fail(std::vector<Item> items, const Status& why, const Course& course) {
  if (!gpu_ || items.empty()) return land(items, course, why, true, nullptr);
  try {  // what has been put on the stream still uses them
    launch(std::move(items), course, why);
  } catch (const Error&) {  // the GPU is broken, and nobody can say whether it does
    land(items, course, why, false, nullptr);
  }
}

/// Leaves the tensors to the completer; if it throws, they are still in `items`. `failure`: what moving them
/// failed with, if it did.
void Executor::launch(std::vector<Item>&& items, const Course& course, const Status& failure) {
  auto end = lane_.stream->mark();
  Flight flight;
  flight.what = describe(items);
  for (auto& item : items) {
    if (item.loan.handle && failure.ok()) table_.launch(item.loan, item.result, end);
  }
  flight.inputs = std::exchange(inputs_, {});
  flight.end = std::move(end);
  const auto shared = std::make_shared<std::vector<Item>>(std::move(items));
  for (auto& item : *shared) item.decision = nullptr;  // it goes before the flight ends
  flight.finish = [this, shared, course, failure, flag = flag_, outgrown = packer_.take_outgrown()](
                      const Status& status, bool ended) {
    land(*shared, course, status.ok() ? failure : status, ended, flag.get());
    if (!ended) keep_for_ever(std::make_shared<std::vector<std::shared_ptr<std::byte>>>(outgrown));
  };
  gpu_->completer->add(std::move(flight));
}

/// Gives the tensors of a batch back.
void Executor::land(std::vector<Item>& items, const Course& course, const Status& status, bool ended,
                    const std::uint32_t* flag) {
  Course whole = course;
  if (gpu_) whole.spans = {{Stage::transfer, course.started, Clock::now()}};
  for (auto& item : items) {
    if (!status.ok()) {
      const std::string named = fmt::format("'{}'", item.loan.entry->name);
      const bool is_known = status.message.find(named) != std::string::npos;
      item.result.status = {
          table_.end_code().of(status.code),
          fmt::format("{} ({} holds undefined values)", status.message, is_known ? "its output" : named)};
    }
    if (flag != nullptr) item.result.finite = *flag == 0;
    if (!ended && item.memory) keep_for_ever(item.memory);
    give_back(std::move(item), whole, !ended);
  }
  items.clear();
}

/// The spans of which moving a batch of this kind consisted.
std::vector<Span> Executor::spans_of(const Decision& decision, TimePoint started) const {
  const Request& request = decision.request;
  const bool packs = request.operation == Operation::allreduce ||
                     request.operation == Operation::reducescatter || request.operation == Operation::reduce;
  if (packs && request.op != ReduceOp::adasum)
    return decision.contributed ? packer_.spans() : std::vector<Span>();
  return {{Stage::transfer, started, Clock::now()}};
}

Executor::Item Executor::borrow(const Decision& decision) {
  const Result result{{}, decision.request.shape, decision.contributed, decision.rows};
  auto loan = table_.take(members_.group, decision.request.name);
  if (loan) return {&decision, *std::move(loan), result};
  if (std::binary_search(decision.joined.begin(), decision.joined.end(), members_.place))
    return stand_in(decision);
  throw Error(Code::internal,
              fmt::format("'{}' was decided, but this rank does not have it", decision.request.name));
}

/// An item that changes nothing for the other ranks.
Executor::Item Executor::stand_in(const Decision& decision) const {
  const Request& request = decision.request;
  const std::size_t length = count(request.shape, request.dtype);
  const std::size_t bytes = length * size_of(request.dtype);
  Item item{&decision,
            {std::make_shared<Entry>()},
            {},
            gpu_ ? gpu_->gpu->allocate(bytes) : allocate_aligned(bytes)};
  Entry& entry = *item.loan.entry;
  entry.input = entry.output = item.memory.get();
  if (request.operation != Operation::allreduce) {
    entry.allocate = [memory = entry.output](const std::vector<std::int64_t>&) { return memory; };
  } else if (gpu_) {
    const auto neutral = gpu_->gpu->allocate_pinned(bytes);
    fill_neutral(neutral.get(), request.dtype, request.op, length);
    lane_.stream->copy(entry.output, neutral.get(), bytes);
    item.memory = std::shared_ptr<std::byte>(  // the copy reads it until the flight ends
        item.memory.get(), [both = std::pair(item.memory, neutral)](std::byte*) {});
  } else {
    fill_neutral(entry.output, request.dtype, request.op, length);
  }
  return item;
}

void Executor::conclude(const Decision& decision, Result result, TimePoint decided) {
  result.status = table_.end_code().of(std::move(result.status));  // a rank that others wait for has left
  auto loan = table_.take(members_.group, decision.request.name);
  if (loan) give_back({&decision, *std::move(loan), std::move(result)}, {decided, decided});
}

void Executor::move(std::vector<Item>& items) {
  Item& first = items.front();
  switch (first.decision->request.operation) {
    case Operation::allreduce: return allreduce(items);
    case Operation::broadcast: return broadcast(items);
    case Operation::allgather: return allgather(first);
    case Operation::alltoall: return alltoall(first);
    case Operation::reducescatter: return reducescatter(first);
    case Operation::gather: return gather(first);
    case Operation::scatter: return scatter(first);
    case Operation::reduce: return reduce_to_root(first);
    case Operation::scan: return scan(first);
    case Operation::barrier: return;  // that all ranks have asked for it is all there is to it
    case Operation::join: first.result.last_rank = first.decision->request.root; return;
    case Operation::add_process_set:
    case Operation::remove_process_set:
      throw Error(Code::internal, "process sets are no matter of an executor");
  }
}

void Executor::allreduce(std::vector<Item>& items) {
  const Decision& first = *items.front().decision;
  if (!first.contributed) return;
  std::vector<Segment> pieces;
  for (auto& [decision, loan, result, memory] : items) {
    const std::size_t length = count(decision->request.shape, decision->request.dtype);
    if (length == 0) continue;
    if (loan.entry->absent) {
      lane_.stream->zero(loan.entry->output, length * size_of(decision->request.dtype));
      loan.entry->input = loan.entry->output;
    }
    pieces.push_back({loan.entry->input, loan.entry->output, length, decision->request.symmetric_address,
                      decision->request.padded});
  }
  if (!pieces.empty()) reduce(pieces, first);
}

void Executor::reduce(std::span<const Segment> pieces, const Decision& kind) {
  const Request& request = kind.request;
  if (request.op == ReduceOp::adasum) {
    return reduce_by_adasum(pieces, request);
  }
  packer_.allreduce(pieces, request.dtype, reduction_of(kind), flag_.get());
}

void Executor::reduce_by_adasum(std::span<const Segment> pieces, const Request& request) {
  const auto combine = [&](Collective& collective, const std::vector<Segment>& segments) {
    adasum(collective, members_.place, size(), segments, request.dtype, request.wire, request.prescale,
           request.postscale);
  };
  std::vector<Segment> segments;
  for (const auto& piece : pieces) segments.push_back({piece.input, piece.output, piece.count});
  if (!gpu_) {
    combine(*lane_.collective, segments);
  } else {
    for (const auto& segment : segments) {
      const std::size_t bytes = segment.count * size_of(request.dtype);
      gpu_->staged->visit(
          {segment.input, bytes, segment.output, bytes},
          [&](Collective& host, std::byte* memory) { combine(host, {{memory, memory, segment.count}}); });
    }
  }
  packer_.look_at(pieces, request.dtype, flag_.get());
}

void Executor::broadcast(const std::vector<Item>& items) {
  const auto root = static_cast<int>(root_of(*items.front().decision));
  std::vector<std::span<std::byte>> pieces;
  for (const auto& [decision, loan, result, memory] : items) {
    const std::size_t bytes =
        count(decision->request.shape, decision->request.dtype) * size_of(decision->request.dtype);
    if (bytes == 0) continue;
    const Entry& entry = *loan.entry;
    if (members_.place == root && entry.output != entry.input)
      lane_.stream->copy(entry.output, entry.input, bytes);
    pieces.emplace_back(static_cast<std::byte*>(entry.output), bytes);
  }
  if (!pieces.empty()) lane_.collective->broadcast_all(pieces, root);
}

void Executor::allgather(Item& item) {
  const Request& request = item.decision->request;
  void* output = allocate(item, request.shape);
  const auto bytes = bytes_of(item.decision->rows, row_bytes(request));
  if (!bytes.empty()) lane_.collective->allgather(item.loan.entry->input, output, bytes);
}

void Executor::alltoall(Item& item) {
  const auto& all = item.decision->rows;
  auto& received = item.result.rows;
  received.clear();
  for (auto from = all.begin(); from != all.end(); from += size())
    received.push_back(*(from + members_.place));
  item.result.shape.front() = std::accumulate(received.begin(), received.end(), std::int64_t{0});
  void* output = allocate(item, item.result.shape);
  const auto bytes = bytes_of(all, row_bytes(item.decision->request));
  if (!bytes.empty()) lane_.collective->alltoall(item.loan.entry->input, output, bytes);
}

void Executor::reducescatter(Item& item) {
  const Request& request = item.decision->request;
  const auto rows = scattered_rows(request.shape.front(), size());
  item.result.shape.front() = rows[static_cast<std::size_t>(members_.place)];
  const std::size_t total = count(request.shape, request.dtype);
  if (total == 0) return;
  const std::size_t row = total / static_cast<std::size_t>(request.shape.front());
  std::vector<std::size_t> counts(rows.size());
  std::transform(rows.begin(), rows.end(), counts.begin(),
                 [row](std::int64_t share) { return static_cast<std::size_t>(share) * row; });
  const Entry& entry = *item.loan.entry;
  packer_.reducescatter({entry.input, entry.output, total}, counts,
                        counts[static_cast<std::size_t>(members_.place)], request.dtype,
                        reduction_of(*item.decision));
}

void Executor::gather(Item& item) {
  const std::size_t root = root_of(*item.decision);
  const std::size_t row = row_bytes(item.decision->request);
  if (members_.place != static_cast<int>(root)) item.result.shape.front() = 0;
  void* output = allocate(item, item.result.shape);
  const auto bytes = bytes_of(item.decision->rows, row);
  if (bytes.empty()) return;
  const std::size_t places = bytes.size();
  std::vector<std::size_t> sent(places * places);  // an alltoall in which all send to one
  for (std::size_t place = 0; place < places; ++place) sent[place * places + root] = bytes[place];
  lane_.collective->alltoall(item.loan.entry->input, output, sent);
}

void Executor::scatter(Item& item) {
  const std::size_t root = root_of(*item.decision);
  const std::size_t row = row_bytes(item.decision->request);
  const auto& rows = item.decision->rows;
  item.result.shape.front() = rows[static_cast<std::size_t>(members_.place)];
  void* output = allocate(item, item.result.shape);
  const auto bytes = bytes_of(rows, row);
  if (bytes.empty()) return;
  const std::size_t places = bytes.size();
  std::vector<std::size_t> sent(places * places);  // an alltoall in which one sends to all
  std::copy(bytes.begin(), bytes.end(), sent.begin() + static_cast<std::ptrdiff_t>(root * places));
  lane_.collective->alltoall(item.loan.entry->input, output, sent);
}

void Executor::reduce_to_root(Item& item) {
  const Request& request = item.decision->request;
  const std::size_t total = count(request.shape, request.dtype);
  if (total == 0) return;
  std::vector<std::size_t> counts(members_.ranks.size());  // a reducescatter in which one gets all
  counts[root_of(*item.decision)] = total;
  const Entry& entry = *item.loan.entry;
  packer_.reducescatter({entry.input, entry.output, total}, counts,
                        counts[static_cast<std::size_t>(members_.place)], request.dtype,
                        reduction_of(*item.decision));
}

void Executor::scan(Item& item) {
  const Request& request = item.decision->request;
  const Entry& entry = *item.loan.entry;
  const std::size_t length = count(request.shape, request.dtype);
  const Reduction reduction = reduction_of(*item.decision);
  if (!gpu_)
    return hora::scan(*lane_.collective, members_.place, size(), entry.input, entry.output, length,
                      reduction);
  const std::size_t bytes = length * size_of(request.dtype);
  gpu_->staged->visit({entry.input, bytes, entry.output, bytes}, [&](Collective& host, std::byte* memory) {
    hora::scan(host, members_.place, size(), memory, memory, length, reduction);
  });
}

std::size_t Executor::root_of(const Decision& decision) const {
  const auto root = std::lower_bound(members_.ranks.begin(), members_.ranks.end(), decision.request.root);
  return static_cast<std::size_t>(root - members_.ranks.begin());
}

/// Memory for the output, which the lane's stream may use.
void* Executor::allocate(Item& item, const std::vector<std::int64_t>& shape) {
  const Entry& entry = *item.loan.entry;
  if (!gpu_ || !item.loan.handle) return entry.allocate(shape);
  if (entry.accept) {
    const std::size_t bytes = count(shape, entry.dtype) * size_of(entry.dtype);
    item.memory = gpu_->gpu->allocate_between(*lane_.stream, entry.stream, bytes);
    entry.accept(item.memory, shape);
    return item.memory.get();
  }
  void* output = entry.allocate(shape);
  try {  // the user's memory is ordered by the user's stream
    lane_.stream->wait(*inputs_.emplace_back(gpu_->gpu->mark(entry.stream)));
  } catch (const Error& error) {
    throw Error(
        error.code(),
        fmt::format("'{}': its output is allocated on the stream that it was submitted with, when all "
                    "ranks have said how much they bring: {}",
                    entry.name, error.what()));
  }
  if (gpu_->gpu_wait != nullptr) gpu_->gpu_wait->start = lane_.stream->mark();
  return output;
}

void Executor::give_back(Item item, const Course& course, bool keeps) {
  if (!item.loan.handle) return;  // a stand-in
  if (recorder_.on() || tracer_.on()) record(item, course);
  table_.finish(std::move(item.loan), std::move(item.result), keeps);
}

void Executor::record(const Item& item, const Course& course) {
  const Entry& entry = *item.loan.entry;
  Record record{entry.name,     entry.operation,     entry.dtype,
                entry.shape,    item.loan.submitted, course.decided,
                course.started, Clock::now(),        item.result.status.code,
                members_.group};
  if (tracer_.on()) tracer_.add({record, members_.group, course.together, course.spans});
  recorder_.add(std::move(record));
}

}  // namespace hora
