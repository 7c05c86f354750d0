// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/lane_operations.h"

#include "core/base/operations.h"
#include "core/compose/adasum.h"
#include "core/compose/scan.h"

#include <algorithm>
#include <iterator>
#include <numeric>

namespace hora {
namespace {

/// The bytes of one row, an element of the first dimension.
std::size_t row_bytes(const Request& request) {
  std::vector<std::int64_t> row = request.shape;
  row.front() = 1;
  return static_cast<std::size_t>(elements(row, request.dtype)) * size_of(request.dtype);
}

/// The bytes of these numbers of rows; an empty list if there is nothing to move at all.
std::vector<std::size_t> bytes_of(const std::vector<std::int64_t>& rows, std::size_t row) {
  std::vector<std::size_t> bytes;
  std::transform(rows.begin(), rows.end(), std::back_inserter(bytes),
                 [row](std::int64_t count) { return static_cast<std::size_t>(count) * row; });
  const bool nothing = std::all_of(bytes.begin(), bytes.end(), [](std::size_t count) { return count == 0; });
  return nothing ? std::vector<std::size_t>() : bytes;
}

}  // namespace

void LaneOperations::carry_out(RunningBatch& batch) {
  const bool looks = batch.items.front().decision->request.check_finite;
  batch.flag = looks ? lane_.stream->make_flag() : nullptr;
  move(batch.items, batch.flag.get());
}

/// Only an operation that the Packer carries out has several stages.
std::vector<Span> LaneOperations::spans_of(const Decision& decision, TimePoint started) const {
  const Request& request = decision.request;
  if (traits(request.operation).packs && request.op != ReduceOp::adasum && !travels_in_blocks(request))
    return decision.contributed ? packer_.spans() : std::vector<Span>();
  return {{Stage::transfer, started, Clock::now()}};
}

void LaneOperations::move(std::vector<BatchItem>& items, std::uint32_t* flag) {
  BatchItem& first = items.front();
  switch (first.decision->request.operation) {
    case Operation::allreduce: return allreduce(items, flag);
    case Operation::broadcast: return broadcast(items);
    case Operation::allgather: return allgather(first);
    case Operation::alltoall: return alltoall(first);
    case Operation::reducescatter: return reducescatter(first);
    case Operation::gather: return gather(first);
    case Operation::scatter: return scatter(first);
    case Operation::reduce: return reduce_to_root(first);
    case Operation::scan: return scan(first);
    case Operation::barrier: return;  // done: all ranks have asked for it
    case Operation::join: first.result.last_rank = first.decision->request.root; return;
    case Operation::add_process_set:
    case Operation::remove_process_set: throw Error(Code::internal, "process sets are not for a lane");
  }
}

void LaneOperations::allreduce(std::vector<BatchItem>& items, std::uint32_t* flag) {
  const Decision& first = *items.front().decision;
  if (!first.contributed) return;
  std::vector<Segment> pieces;
  for (auto& [decision, loan, result, memory] : items) {
    const std::size_t length = number_count(decision->request);
    if (length == 0) continue;
    if (loan.entry->absent) {
      lane_.stream->set_bytes(loan.entry->output, std::byte{0}, byte_count(decision->request));
      loan.entry->input = loan.entry->output;
    }
    pieces.push_back({loan.entry->input, loan.entry->output, length, decision->request.symmetric_address,
                      decision->request.padded});
  }
  if (pieces.empty()) return;
  const Request& request = first.request;
  if (request.op == ReduceOp::adasum) return reduce_by_adasum(pieces, request, flag);
  const Reduction reduction = reduction_of(request, first.divisor);
  if (travels_in_blocks(request)) return block_sums().allreduce(pieces, request.dtype, reduction, flag);
  packer_.allreduce(pieces, numbers_of(request.dtype).dtype, reduction, flag);
}

void LaneOperations::reduce_by_adasum(std::span<const Segment> pieces, const Request& request,
                                      std::uint32_t* flag) {
  completion_.on_host(pieces, size_of(request.dtype),
                      [this, &request](Collective& host, std::span<const Segment> segments) {
                        adasum(host, members_.place, size(), segments, request.dtype, request.wire,
                               request.prescale, request.postscale);
                      });
  packer_.look_at(pieces, request.dtype, flag);
}

BlockFloatSums LaneOperations::block_sums() {
  // A GPU's buffer gets what the largest sums need at once. It must not grow in a run of a graph.
  const std::size_t rounds = lane_.fuses ? 3 : 1;
  return {*lane_.stream,         *lane_.collective,
          members_.place,        size(),
          packer_.round_bytes(), [this, rounds](std::size_t bytes) { return packer_.buffer(bytes, rounds); }};
}

void LaneOperations::broadcast(const std::vector<BatchItem>& items) {
  const auto root = static_cast<int>(root_of(*items.front().decision));
  std::vector<std::span<std::byte>> pieces;
  for (const auto& [decision, loan, result, memory] : items) {
    const std::size_t bytes = byte_count(decision->request);
    if (bytes == 0) continue;
    const Entry& entry = *loan.entry;
    if (members_.place == root && entry.output != entry.input)
      lane_.stream->copy(entry.output, entry.input, bytes);
    pieces.emplace_back(static_cast<std::byte*>(entry.output), bytes);
  }
  if (!pieces.empty()) lane_.collective->broadcast_all(pieces, root);
}

void LaneOperations::allgather(BatchItem& item) {
  const Request& request = item.decision->request;
  void* output = completion_.allocate(item, request.shape);
  const auto bytes = bytes_of(item.decision->rows, row_bytes(request));
  if (!bytes.empty()) lane_.collective->allgather(item.loan.entry->input, output, bytes);
}

void LaneOperations::alltoall(BatchItem& item) {
  const auto& all = item.decision->rows;
  auto& received = item.result.rows;
  received.clear();
  for (auto from = all.begin(); from != all.end(); from += size())
    received.push_back(*(from + members_.place));
  item.result.shape.front() = std::accumulate(received.begin(), received.end(), std::int64_t{0});
  void* output = completion_.allocate(item, item.result.shape);
  const auto bytes = bytes_of(all, row_bytes(item.decision->request));
  if (!bytes.empty()) lane_.collective->alltoall(item.loan.entry->input, output, bytes);
}

void LaneOperations::reducescatter(BatchItem& item) {
  const Request& request = item.decision->request;
  const auto rows = scattered_rows(request.shape.front(), size());
  item.result.shape.front() = rows[static_cast<std::size_t>(members_.place)];
  const std::size_t total = number_count(request);
  if (total == 0) return;
  const std::size_t row = total / static_cast<std::size_t>(request.shape.front());
  std::vector<std::size_t> counts(rows.size());
  std::transform(rows.begin(), rows.end(), counts.begin(),
                 [row](std::int64_t share) { return static_cast<std::size_t>(share) * row; });
  reduce_parts(item, counts);
}

void LaneOperations::reduce_parts(const BatchItem& item, std::span<const std::size_t> counts) {
  const Request& request = item.decision->request;
  const Segment whole{item.loan.entry->input, item.loan.entry->output, number_count(request)};
  const Reduction reduction = reduction_of(request, item.decision->divisor);
  if (travels_in_blocks(request)) return block_sums().reducescatter(whole, counts, request.dtype, reduction);
  packer_.reducescatter(whole, counts, counts[static_cast<std::size_t>(members_.place)],
                        numbers_of(request.dtype).dtype, reduction);
}

void LaneOperations::gather(BatchItem& item) {
  const std::size_t root = root_of(*item.decision);
  const std::size_t row = row_bytes(item.decision->request);
  if (members_.place != static_cast<int>(root)) item.result.shape.front() = 0;
  void* output = completion_.allocate(item, item.result.shape);
  const auto bytes = bytes_of(item.decision->rows, row);
  if (bytes.empty()) return;
  const std::size_t places = bytes.size();
  std::vector<std::size_t> sent(places * places);  // an alltoall in which all ranks send to the root
  for (std::size_t place = 0; place < places; ++place) sent[place * places + root] = bytes[place];
  lane_.collective->alltoall(item.loan.entry->input, output, sent);
}

void LaneOperations::scatter(BatchItem& item) {
  const std::size_t root = root_of(*item.decision);
  const std::size_t row = row_bytes(item.decision->request);
  const auto& rows = item.decision->rows;
  item.result.shape.front() = rows[static_cast<std::size_t>(members_.place)];
  void* output = completion_.allocate(item, item.result.shape);
  const auto bytes = bytes_of(rows, row);
  if (bytes.empty()) return;
  const std::size_t places = bytes.size();
  std::vector<std::size_t> sent(places * places);  // an alltoall in which the root sends to all ranks
  std::copy(bytes.begin(), bytes.end(), sent.begin() + static_cast<std::ptrdiff_t>(root * places));
  lane_.collective->alltoall(item.loan.entry->input, output, sent);
}

void LaneOperations::reduce_to_root(BatchItem& item) {
  const std::size_t total = number_count(item.decision->request);
  if (total == 0) return;
  std::vector<std::size_t> counts(members_.ranks.size());  // a reducescatter in which the root gets all
  counts[root_of(*item.decision)] = total;
  reduce_parts(item, counts);
}

void LaneOperations::scan(BatchItem& item) {
  const Request& request = item.decision->request;
  const Entry& entry = *item.loan.entry;
  const Segment whole{entry.input, entry.output, number_count(request)};
  const Reduction reduction = reduction_of(request, item.decision->divisor);
  completion_.on_host({&whole, 1}, size_of(reduction.dtype),
                      [this, &reduction](Collective& host, std::span<const Segment> segments) {
                        const Segment& all = segments.front();
                        hora::scan(host, members_.place, size(), all.input, all.output, all.count, reduction);
                      });
}

std::size_t LaneOperations::root_of(const Decision& decision) const {
  const auto root = std::lower_bound(members_.ranks.begin(), members_.ranks.end(), decision.request.root);
  return static_cast<std::size_t>(root - members_.ranks.begin());
}

}  // namespace hora
