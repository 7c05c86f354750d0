// SPDX-License-Identifier: Apache-2.0
#include "core/negotiate/message.h"

#include "core/base/bytes.h"
#include "core/base/operations.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace hora {
namespace {

constexpr std::int64_t kMostBytes = std::int64_t{1} << 62;

template <typename Integer>
void write(Writer& out, const std::vector<Integer>& values) {
  out.u64(values.size());
  for (const auto value : values) out.i64(value);
}

void write(Writer& out, const Request& request) {
  out.u8(static_cast<std::uint8_t>(request.operation)).string(request.name);
  out.u8(static_cast<std::uint8_t>(request.dtype)).u8(static_cast<std::uint8_t>(request.wire));
  write(out, request.shape);
  write(out, request.strides);
  out.u8(static_cast<std::uint8_t>(request.op)).f64(request.prescale).f64(request.postscale);
  out.u64(static_cast<std::uint64_t>(request.root)).u8(request.absent ? 1 : 0).string(request.bundle);
  write(out, request.splits);
  write(out, request.ranks);
  out.string(request.set_name);
  out.u8(request.divide_by_initial_size ? 1 : 0).u8(request.check_finite ? 1 : 0);
  out.u8(static_cast<std::uint8_t>(request.device)).u64(request.symmetric_address).u8(request.padded ? 1 : 0);
  out.string(request.failed_with);
}

/// At most `most` numbers, each of which takes a byte at least.
std::vector<std::int64_t> read_list(Reader& in, std::uint64_t most, const char* what) {
  const auto count = in.count(1, what);
  if (count > most) throw Error(Code::internal, fmt::format("bad message: {} {}", count, what));
  std::vector<std::int64_t> values;
  values.reserve(count);
  for (std::uint64_t i = 0; i < count; ++i) values.push_back(in.i64());
  return values;
}

/// At most `size` numbers below it.
std::vector<int> read_ranks(Reader& in, int size, const char* what) {
  const auto all = static_cast<std::uint64_t>(size);
  std::vector<int> ranks;
  for (auto left = in.below(all + 1, what); left > 0; --left) {
    const auto rank = in.i64();
    if (rank < 0 || rank >= size)
      throw Error(Code::internal, fmt::format("bad message: {} in {}", rank, what));
    ranks.push_back(static_cast<int>(rank));
  }
  return ranks;
}

/// Checks that a tensor that is cut or put together by rows has some, and sends no more than it has.
void check_rows(const Request& request) {
  const bool has_rows = traits(request.operation).by_rows;
  if (has_rows && request.shape.empty()) throw Error(Code::internal, "bad message: a scalar has no rows");
  std::int64_t left = has_rows ? request.shape.front() : 0;
  for (const auto rows : request.splits) {
    if (rows < 0 || rows > left) throw Error(Code::internal, "bad message: splits that do not fit the rows");
    left -= rows;
  }
}

Request read_request(Reader& in, int size) {
  Request request;
  request.operation = in.enumerator<Operation>(kOperations, "an operation");
  request.name = in.string(kMostNameBytes);
  request.dtype = in.enumerator<DType>(kDTypes, "a dtype");
  request.wire = in.enumerator<DType>(kDTypes, "a wire dtype");
  request.shape = read_list(in, kMostDimensions, "dimensions");
  request.strides = read_list(in, kMostDimensions, "strides");
  request.op = in.enumerator<ReduceOp>(kReduceOps, "a reduction");
  request.prescale = in.f64();
  request.postscale = in.f64();
  request.root = static_cast<int>(in.below(static_cast<std::uint64_t>(size), "a root"));
  request.absent = in.boolean();
  request.bundle = in.string(kMostNameBytes);
  request.splits = read_list(in, static_cast<std::uint64_t>(size), "splits");
  request.ranks = read_ranks(in, size, "the ranks of a process set");
  request.set_name = in.string(kMostNameBytes);
  if (is_of_some(request) && (request.ranks.empty() || !concerns_members(request.operation)))
    throw Error(Code::internal, "bad message: the name of a process set without its ranks");
  request.divide_by_initial_size = in.boolean();
  request.check_finite = in.boolean();
  request.device = in.enumerator<DeviceKind>(kDeviceKinds, "a device");
  request.symmetric_address = in.u64();
  request.padded = in.boolean();
  request.failed_with = in.string(kMostFailureBytes);
  static_cast<void>(elements(request.shape, request.dtype));
  return request;
}

// Numbers in ascending order, as runs: the gap to the first, how many follow one another. A whole step of a
// model that asks in the usual order is one run of three bytes.
void write_runs(Writer& out, const std::vector<DecisionId>& ids) {
  std::vector<std::pair<DecisionId, std::uint64_t>> runs;
  for (const auto id : ids) {
    if (!runs.empty() && runs.back().first + runs.back().second == id) {
      ++runs.back().second;
    } else {
      runs.emplace_back(id, 1);
    }
  }
  out.u64(runs.size());
  DecisionId next = 0;
  for (const auto& [first, count] : runs) {
    out.u64(first - next).u64(count);
    next = first + count;
  }
}

std::vector<DecisionId> read_runs(Reader& in) {
  constexpr std::uint64_t kMostIds = 1 << 20;
  constexpr DecisionId kMostId = DecisionId{1} << 62;
  std::vector<DecisionId> ids;
  DecisionId next = 0;
  for (auto left = in.count(2, "runs"); left > 0; --left) {
    next += in.below(kMostId - next, "the first of a run");
    for (auto count = in.below(kMostIds - ids.size() + 1, "the length of a run"); count > 0; --count) {
      ids.push_back(next++);
    }
  }
  return ids;
}

int read_group(Reader& in) {
  constexpr std::uint64_t kMostGroups = std::uint64_t{1} << 31;
  return static_cast<int>(in.below(kMostGroups, "the number of a group"));
}

void write(Writer& out, const Decision& decision) {
  out.u8(static_cast<std::uint8_t>(decision.status.code)).string(decision.status.message);
  write(out, decision.request);
  write(out, decision.rows);
  out.u8(decision.contributed ? 1 : 0).u64(static_cast<std::uint64_t>(decision.divisor));
  write(out, decision.joined);
}

Decision read_decision(Reader& in, int size) {
  Decision decision;
  decision.status.code = in.enumerator<Code>(kCodes, "a code");
  decision.status.message = in.string(kMostMessageBytes);
  decision.request = read_request(in, size);
  if (decision.status.ok()) check_rows(decision.request);  // a failure only names the tensor
  const auto all = static_cast<std::uint64_t>(size);
  decision.rows = read_list(in, all * all, "numbers of rows");
  decision.contributed = in.boolean();
  decision.divisor = static_cast<int>(in.below(all + 1, "a divisor"));
  decision.joined = read_ranks(in, size, "the places that have joined");
  if (decision.request.name.empty()) throw Error(Code::internal, "bad message: a decision without a name");
  return decision;
}

// The last byte of a ballot, but for what it announces.
constexpr std::uint64_t kLeaves = 1;
constexpr std::uint64_t kForOthers = 2;
constexpr std::uint64_t kStays = 4;
constexpr std::uint64_t kReport = 8;  // times its kind

void write(Writer& out, const Ballot& ballot) {
  out.u64(static_cast<std::uint64_t>(ballot.group)).u64(ballot.heard);
  write_runs(out, ballot.repeats);
  out.u64(ballot.requests.size());
  for (const auto& request : ballot.requests) write(out, request);
  const bool for_others = !ballot.ranks.empty();
  out.u64(kReport * static_cast<std::uint64_t>(ballot.report) + (for_others ? kForOthers : 0) +
          (ballot.leaving ? kLeaves : 0) + (ballot.stays_in_job ? kStays : 0));
  if (ballot.report != Report::none) out.u64(ballot.content.size()).raw(ballot.content);
  if (!for_others) return;
  write(out, ballot.ranks);
  out.u64(static_cast<std::uint64_t>(ballot.age.count())).u64(ballot.late.size());
  for (const auto& late : ballot.late) {
    write(out, late.ranks);
    out.u64(static_cast<std::uint64_t>(late.behind.count()));
  }
}

Clock::duration read_duration(Reader& in) {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 60;
  return Clock::duration(static_cast<Clock::rep>(in.below(kMost, "a time")));
}

Ballot read_ballot(Reader& in, int size) {
  Ballot ballot;
  ballot.group = read_group(in);
  ballot.heard = in.u64();
  ballot.repeats = read_runs(in);
  for (auto left = in.count(8, "requests"); left > 0; --left) {
    ballot.requests.push_back(read_request(in, size));
    check_rows(ballot.requests.back());
  }
  const auto last = in.below(kReport * kReports, "a kind of report, for whom, and whether it leaves");
  ballot.leaving = (last & kLeaves) != 0;
  ballot.stays_in_job = (last & kStays) != 0;
  ballot.report = static_cast<Report>(last / kReport);
  if (ballot.report != Report::none) {
    const auto content = in.raw(in.count(1, "bytes of a report"));
    ballot.content.assign(content.begin(), content.end());
  }
  if ((last & kForOthers) == 0) return ballot;
  ballot.ranks = read_rank_set(in, size);
  if (ballot.ranks.empty()) throw Error(Code::internal, "bad message: a ballot that speaks for nobody");
  ballot.age = read_duration(in);
  for (auto left = in.count(2, "ranks that were late"); left > 0; --left) {
    Late late{read_rank_set(in, size), {}};
    late.behind = read_duration(in);
    ballot.late.push_back(std::move(late));
  }
  return ballot;
}

}  // namespace

std::int64_t elements(const std::vector<std::int64_t>& shape, DType dtype) {
  std::int64_t count = 1;
  for (const auto extent : shape) {
    std::int64_t product = 0;
    if (extent < 0 || __builtin_mul_overflow(count, extent, &product) ||
        product > kMostBytes / static_cast<std::int64_t>(size_of(dtype))) {
      throw Error(Code::invalid_argument,
                  fmt::format("no tensor can have the shape {}", describe(dtype, shape)));
    }
    count = product;
  }
  return count;
}

std::string describe(DType dtype, const std::vector<std::int64_t>& shape) {
  return fmt::format("{}[{}]", name(dtype), fmt::join(shape, ","));
}

std::string describe(const Request& request) {
  if (!traits(request.operation).has_tensor) return std::string(name(request.operation));
  return fmt::format("{} {}", name(request.operation), describe(request.dtype, request.shape));
}

std::string shortened(std::string text, std::size_t most) {
  if (text.size() <= most) return text;
  const auto continues = [](char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; };
  while (most > 0 && continues(text[most])) --most;
  text.resize(most);
  return text;
}

Bytes encode(const Ballot& ballot) { return encode(std::span(&ballot, 1)); }

Bytes encode(std::span<const Ballot> ballots) {
  Writer out;
  for (const auto& ballot : ballots) write(out, ballot);
  return out.take();
}

std::vector<Ballot> decode_ballots(std::span<const std::byte> bytes, int size) {
  Reader in(bytes);
  std::vector<Ballot> ballots;
  do {
    ballots.push_back(read_ballot(in, size));
  } while (in.left() > 0);
  return ballots;
}

Bytes encode(const Verdict& verdict) {
  Writer out;
  out.u64(static_cast<std::uint64_t>(verdict.group)).u64(verdict.items.size());
  DecisionId expected = 0;
  for (const auto& item : verdict.items) {
    const bool full = !item.decision.request.name.empty();
    out.u8(full ? 1 : 0);
    if (full) {
      write(out, item.decision);
    } else {
      out.i64(
          static_cast<std::int64_t>(item.repeat - expected));  // one byte where they come in the usual order
      expected = item.repeat + 1;
    }
  }
  const bool locks = !verdict.lock.empty();
  const bool fuses = verdict.fuse_up_to != 0;
  const bool parts = !verdict.left.empty();
  const bool ends_groups = !verdict.ended.empty();
  out.u8(static_cast<std::uint8_t>((ends_groups ? 32 : 0) + (parts ? 16 : 0) + (fuses ? 8 : 0) +
                                   (locks ? 4 : 0) + (verdict.inquiry ? 2 : 0) + (verdict.end ? 1 : 0)));
  out.u8(static_cast<std::uint8_t>(verdict.trace));
  if (fuses) out.u64(verdict.fuse_up_to);
  if (parts) write(out, verdict.left);
  if (ends_groups) {
    out.u64(verdict.ended.size());
    for (const int group : verdict.ended) out.u64(static_cast<std::uint64_t>(group));
  }
  if (!locks) return out.take();
  out.u64(verdict.lock.size()).u64(verdict.made);
  DecisionId next = 0;
  for (const auto id : verdict.lock) {
    out.i64(static_cast<std::int64_t>(id - next));
    next = id + 1;
  }
  return out.take();
}

Verdict decode_verdict(std::span<const std::byte> bytes, int size) {
  Reader in(bytes);
  Verdict verdict;
  verdict.group = read_group(in);
  DecisionId expected = 0;
  constexpr std::size_t kReserved = 1 << 10;  // what a few bytes claim to hold may be many
  const std::size_t count = in.count(2, "decisions");
  verdict.items.reserve(std::min(count, kReserved));
  for (auto left = count; left > 0; --left) {
    Verdict::Item& item = verdict.items.emplace_back();
    if (in.boolean()) {
      item.decision = read_decision(in, size);
    } else {
      item.repeat = expected + static_cast<DecisionId>(in.i64());
      expected = item.repeat + 1;
    }
  }
  const auto flags = in.below(64, "the flags of a verdict");
  verdict.end = (flags & 1) != 0;
  verdict.inquiry = (flags & 2) != 0;
  verdict.trace = in.enumerator<TraceCommand>(kTraceCommands, "a command to trace");
  if ((flags & 8) != 0) verdict.fuse_up_to = in.u64();
  if ((flags & 16) != 0) verdict.left = read_rank_set(in, size);
  if ((flags & 32) != 0) {
    for (auto left = in.count(1, "groups that have ended"); left > 0; --left)
      verdict.ended.push_back(read_group(in));
  }
  if ((flags & 4) != 0) {
    const auto length = in.count(1, "decisions of a lock");
    if (length == 0) throw Error(Code::internal, "bad message: a lock of nothing");
    verdict.made = in.below(length + 1, "how many of them were made");
    DecisionId next = 0;
    for (auto left = length; left > 0; --left) {
      verdict.lock.push_back(next + static_cast<DecisionId>(in.i64()));
      next = verdict.lock.back() + 1;
    }
  }
  in.finish();
  return verdict;
}

}  // namespace hora
