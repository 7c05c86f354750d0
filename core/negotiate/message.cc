// SPDX-License-Identifier: Apache-2.0
#include "core/negotiate/message.h"

#include "core/base/bytes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace hora {
namespace {

constexpr std::int64_t kMostBytes = std::int64_t{1} << 62;
constexpr int kCodes = static_cast<int>(Code::internal) + 1;

void write(Writer& out, const std::vector<std::int64_t>& values) {
  out.u64(values.size());
  for (const auto value : values) out.i64(value);
}

void write(Writer& out, const Request& request) {
  out.u8(static_cast<std::uint8_t>(request.operation)).string(request.name);
  out.u8(static_cast<std::uint8_t>(request.dtype)).u8(static_cast<std::uint8_t>(request.wire));
  write(out, request.shape);
  out.u8(static_cast<std::uint8_t>(request.op)).f64(request.prescale).f64(request.postscale);
  out.u64(static_cast<std::uint64_t>(request.root)).u8(request.absent ? 1 : 0);
}

std::vector<std::int64_t> read_shape(Reader& in) {
  const auto count = in.below(kMostDimensions + 1, "the number of dimensions");
  std::vector<std::int64_t> shape;
  shape.reserve(count);
  for (std::uint64_t i = 0; i < count; ++i) shape.push_back(in.i64());
  return shape;
}

Request read_request(Reader& in, int size) {
  Request request;
  request.operation = in.enumerator<Operation>(kOperations, "an operation");
  request.name = in.string(kMostNameBytes);
  request.dtype = in.enumerator<DType>(kDTypes, "a dtype");
  request.wire = in.enumerator<DType>(kDTypes, "a wire dtype");
  request.shape = read_shape(in);
  request.op = in.enumerator<ReduceOp>(kReduceOps, "a reduction");
  request.prescale = in.f64();
  request.postscale = in.f64();
  request.root = static_cast<int>(in.below(static_cast<std::uint64_t>(size), "a root"));
  request.absent = in.boolean();
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

void write(Writer& out, const Decision& decision) {
  out.u8(static_cast<std::uint8_t>(decision.status.code)).string(decision.status.message);
  write(out, decision.request);
  write(out, decision.rows);
  out.u8(decision.contributed ? 1 : 0);
}

Decision read_decision(Reader& in, int size) {
  Decision decision;
  decision.status.code = in.enumerator<Code>(kCodes, "a code");
  decision.status.message = in.string(kMostMessageBytes);
  decision.request = read_request(in, size);
  const auto rows = in.below(static_cast<std::uint64_t>(size) + 1, "the number of ranks that bring rows");
  for (std::uint64_t i = 0; i < rows; ++i) decision.rows.push_back(in.i64());
  decision.contributed = in.boolean();
  if (decision.request.name.empty()) throw Error(Code::internal, "bad message: a decision without a name");
  return decision;
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

std::string shortened(std::string text, std::size_t most) {
  if (text.size() <= most) return text;
  const auto continues = [](char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; };
  while (most > 0 && continues(text[most])) --most;
  text.resize(most);
  return text;
}

Bytes encode(const Ballot& ballot) {
  Writer out;
  out.u64(ballot.heard);
  write_runs(out, ballot.repeats);
  out.u64(ballot.requests.size());
  for (const auto& request : ballot.requests) write(out, request);
  out.u8(ballot.leaving ? 1 : 0);
  return out.take();
}

Ballot decode_ballot(std::span<const std::byte> bytes, int size) {
  Reader in(bytes);
  Ballot ballot;
  ballot.heard = in.u64();
  ballot.repeats = read_runs(in);
  for (auto left = in.count(8, "requests"); left > 0; --left)
    ballot.requests.push_back(read_request(in, size));
  ballot.leaving = in.boolean();
  in.finish();
  return ballot;
}

Bytes encode(const Verdict& verdict) {
  Writer out;
  out.u64(verdict.items.size());
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
  out.u8(verdict.end ? 1 : 0);
  return out.take();
}

Verdict decode_verdict(std::span<const std::byte> bytes, int size) {
  Reader in(bytes);
  Verdict verdict;
  DecisionId expected = 0;
  for (auto left = in.count(2, "decisions"); left > 0; --left) {
    Verdict::Item item;
    if (in.boolean()) {
      item.decision = read_decision(in, size);
    } else {
      item.repeat = expected + static_cast<DecisionId>(in.i64());
      expected = item.repeat + 1;
    }
    verdict.items.push_back(std::move(item));
  }
  verdict.end = in.boolean();
  in.finish();
  return verdict;
}

}  // namespace hora
