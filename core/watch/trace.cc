// SPDX-License-Identifier: Apache-2.0
#include "core/watch/trace.h"

#include "core/base/bytes.h"

namespace hora {
namespace {

constexpr std::int64_t kMostBefore = std::int64_t{1} << 60;  // nanoseconds: 36 years
constexpr std::uint64_t kMostCount = std::uint64_t{1} << 31;

using Nanoseconds = std::chrono::nanoseconds;

std::int64_t count(TimePoint instant) { return Nanoseconds(instant.time_since_epoch()).count(); }

/// Instants as nanoseconds before the part was made.
class Instants {
 public:
  explicit Instants(TimePoint now) : now_(now) {}

  void write(Writer& out, TimePoint instant) const { out.i64(count(now_) - count(instant)); }

  [[nodiscard]] TimePoint read(Reader& in) const {
    const auto before = in.i64();
    if (before < -kMostBefore || before > kMostBefore) throw Error(Code::internal, "bad trace: an instant");
    return now_ - Nanoseconds(before);
  }

 private:
  TimePoint now_;
};

void write(Writer& out, const Traced& traced, const Instants& instants) {
  const Record& record = traced.record;
  out.string(record.name).u8(static_cast<std::uint8_t>(record.operation));
  out.u8(static_cast<std::uint8_t>(record.dtype)).u64(record.shape.size());
  for (const auto extent : record.shape) out.i64(extent);
  for (const auto instant : {record.submitted, record.decided, record.started, record.finished})
    instants.write(out, instant);
  out.u8(static_cast<std::uint8_t>(record.code)).u64(static_cast<std::uint64_t>(traced.group));
  out.u64(static_cast<std::uint64_t>(traced.together)).u64(traced.spans.size());
  for (const auto& span : traced.spans) {
    out.u8(static_cast<std::uint8_t>(span.stage));
    instants.write(out, span.begin);
    instants.write(out, span.end);
  }
}

Traced read_traced(Reader& in, const Instants& instants) {
  Traced traced;
  Record& record = traced.record;
  record.name = in.string(kMostNameBytes);
  record.operation = in.enumerator<Operation>(kOperations, "an operation");
  record.dtype = in.enumerator<DType>(kDTypes, "a dtype");
  for (auto left = in.below(kMostDimensions + 1, "dimensions"); left > 0; --left)
    record.shape.push_back(in.i64());
  for (auto* instant : {&record.submitted, &record.decided, &record.started, &record.finished})
    *instant = instants.read(in);
  record.code = in.enumerator<Code>(kCodes, "a code");
  traced.group = static_cast<int>(in.below(kMostCount, "the number of a group"));
  traced.together = static_cast<int>(in.below(kMostCount, "a number of tensors"));
  for (auto left = in.count(3, "spans"); left > 0; --left) {
    const auto stage = in.enumerator<Stage>(kStages, "a stage");
    const auto begin = instants.read(in);
    traced.spans.push_back({stage, begin, instants.read(in)});
  }
  return traced;
}

}  // namespace

Bytes encode(const TracePart& part) {
  const Instants instants(part.now);
  Writer out;
  out.i64(count(part.now)).i64(part.wall).u64(part.operations.size());
  for (const auto& traced : part.operations) write(out, traced, instants);
  out.u64(part.cycles.size());
  for (const auto instant : part.cycles) instants.write(out, instant);
  out.u8(part.last ? 1 : 0);
  return out.take();
}

TracePart decode_trace(std::span<const std::byte> bytes) {
  Reader in(bytes);
  TracePart part;
  const auto now = in.i64();
  if (now < 0 || now > kMostBefore) throw Error(Code::internal, "bad trace: an instant");
  part.now = TimePoint(Nanoseconds(now));
  const Instants instants(part.now);
  part.wall = in.i64();
  for (auto left = in.count(12, "operations"); left > 0; --left)
    part.operations.push_back(read_traced(in, instants));
  for (auto left = in.count(1, "cycles"); left > 0; --left) part.cycles.push_back(instants.read(in));
  part.last = in.boolean();
  in.finish();
  return part;
}

}  // namespace hora
