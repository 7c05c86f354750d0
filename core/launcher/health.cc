// SPDX-License-Identifier: Apache-2.0
#include "core/launcher/health.h"

#include "core/base/bytes.h"
#include "core/base/rank_assignment.h"

#include <hora/status.h>

#include <algorithm>
#include <cmath>
#include <string_view>

namespace hora {
namespace {

constexpr std::uint64_t kMostTime = std::uint64_t{1} << 50;

template <typename Time>
Time take_time(Reader& in) {
  return Time(in.below(kMostTime, "a time"));
}

template <typename Time>
std::uint64_t number_of(Time time) {
  return static_cast<std::uint64_t>(std::max(time, Time::zero()).count());
}

std::string_view beginning(std::string_view text) { return text.substr(0, kMostToldName); }

int take_rank(Reader& in) { return static_cast<int>(in.below(kMostRanks, "a rank")); }

double take_measure(Reader& in, double most) {
  const double value = in.f64();
  if (!std::isfinite(value) || value < 0 || value > most)
    throw Error(Code::internal, "bad message: a measure that is none");
  return value;
}

/// A number of elements, of which no more than `most` are told.
std::size_t take_count(Reader& in, std::size_t each, std::size_t most) {
  const std::size_t count = in.count(each, "what is told");
  if (count > most) throw Error(Code::internal, "bad message: it tells more than is ever told");
  return count;
}

void write(Writer& out, const InFlight& operation) {
  out.string(beginning(operation.name)).string(beginning(operation.what));
  out.u64(number_of(operation.since));
}

InFlight take_operation(Reader& in) {
  InFlight operation;
  operation.name = in.string(kMostToldName);
  operation.what = in.string(kMostToldName);
  operation.since = take_time<std::chrono::milliseconds>(in);
  return operation;
}

void write(Writer& out, const JobHealth::Late& late) {
  out.u64(static_cast<std::uint64_t>(late.rank)).u64(number_of(late.median)).u64(number_of(late.p99));
  out.f64(late.last);
}

JobHealth::Late take_late(Reader& in) {
  JobHealth::Late late;
  late.rank = take_rank(in);
  late.median = take_time<std::chrono::microseconds>(in);
  late.p99 = take_time<std::chrono::microseconds>(in);
  late.last = take_measure(in, 1);
  return late;
}

void write(Writer& out, const JobHealth::Missed& missed) {
  write(out, missed.operation);
  const std::size_t told = std::min(missed.missing.size(), kMostMissing);
  out.u64(missed.step).u64(missed.all_missing).u64(told);
  for (std::size_t i = 0; i < told; ++i) out.u64(static_cast<std::uint64_t>(missed.missing[i]));
}

JobHealth::Missed take_missed(Reader& in) {
  JobHealth::Missed missed;
  missed.operation = take_operation(in);
  missed.step = in.u64();
  missed.all_missing = in.u64();
  const std::size_t told = take_count(in, 1, kMostMissing);
  for (std::size_t i = 0; i < told; ++i) missed.missing.push_back(take_rank(in));
  return missed;
}

template <typename Part>
void write_first(Writer& out, const std::vector<Part>& parts, std::size_t most) {
  const std::size_t told = std::min(parts.size(), most);
  out.u64(told);
  for (std::size_t i = 0; i < told; ++i) write(out, parts[i]);
}

}  // namespace

Bytes encode(const Health& health) {
  Writer out;
  out.u64(health.finished).u64(health.bytes).string(beginning(health.last));
  out.u64(number_of(health.since_last)).u64(health.in_flight);
  write_first(out, health.oldest, kMostTold);
  return out.take();
}

Health decode_health(std::span<const std::byte> bytes) {
  Reader in(bytes);
  Health health;
  health.finished = in.u64();
  health.bytes = in.u64();
  health.last = in.string(kMostToldName);
  health.since_last = take_time<std::chrono::milliseconds>(in);
  health.in_flight = in.u64();
  const std::size_t told = take_count(in, 3, kMostTold);
  for (std::size_t i = 0; i < told; ++i) health.oldest.push_back(take_operation(in));
  in.finish();
  return health;
}

Bytes encode(const JobHealth& health) {
  Writer out;
  out.u64(health.steps).f64(health.steps_per_second).u64(number_of(health.since_step));
  write_first(out, health.lateness, kMostLate);
  out.u64(health.waiting);
  write_first(out, health.longest, kMostTold);
  return out.take();
}

JobHealth decode_job_health(std::span<const std::byte> bytes) {
  Reader in(bytes);
  JobHealth health;
  health.steps = in.u64();
  health.steps_per_second = take_measure(in, 1e12);
  health.since_step = take_time<std::chrono::milliseconds>(in);
  const std::size_t ranks = take_count(in, 11, kMostLate);
  for (std::size_t i = 0; i < ranks; ++i) health.lateness.push_back(take_late(in));
  health.waiting = in.u64();
  const std::size_t told = take_count(in, 6, kMostTold);
  for (std::size_t i = 0; i < told; ++i) health.longest.push_back(take_missed(in));
  in.finish();
  return health;
}

}  // namespace hora
