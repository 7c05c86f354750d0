// SPDX-License-Identifier: Apache-2.0
#include "test/soak/tasks.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <functional>
#include <numeric>

namespace hora {
namespace {

constexpr std::array kKinds{Operation::allreduce,     Operation::allreduce, Operation::allreduce,
                            Operation::broadcast,     Operation::allgather, Operation::alltoall,
                            Operation::reducescatter, Operation::gather,    Operation::scatter,
                            Operation::reduce,        Operation::scan,      Operation::barrier};
constexpr std::uint64_t kNames = 1024;  // more than are under way at a time

/// Mixes bits well enough for tests (Steele, Lea, Flood: SplitMix64).
std::uint64_t mixed(std::uint64_t word) {
  word += 0x9e3779b97f4a7c15;
  word = (word ^ (word >> 30)) * 0xbf58476d1ce4e5b9;
  word = (word ^ (word >> 27)) * 0x94d049bb133111eb;
  return word ^ (word >> 31);
}

/// Random numbers of one task.
class Dice {
 public:
  Dice(std::uint64_t seed, std::uint64_t number) : state_(mixed(seed) ^ mixed(number + 1)) {}
  std::size_t below(std::size_t bound) { return (state_ = mixed(state_)) % bound; }

 private:
  std::uint64_t state_;
};

bool reduces(Operation operation) {
  return operation == Operation::allreduce || operation == Operation::reducescatter ||
         operation == Operation::reduce || operation == Operation::scan;
}

/// The first ones are the largest, so that what ranks keep for those is there from the beginning; then mostly
/// small, seldom large.
std::size_t rows_from(Dice& dice, std::uint64_t number) {
  constexpr std::size_t kMost = 200'000;
  constexpr std::uint64_t kFirst = 100;
  if (number < kFirst) return kMost;
  const std::size_t kind = dice.below(1000);
  if (kind == 0) return dice.below(kMost);
  if (kind < 10) return dice.below(10'000);
  return dice.below(200);
}

}  // namespace

Task task_of(std::uint64_t seed, std::uint64_t number, std::size_t sets) {
  Dice dice(seed, number);
  Task task;
  task.number = number;
  task.operation = kKinds[dice.below(kKinds.size())];
  static const std::vector<DType> kReduced = reduced_dtypes();
  task.dtype = kReduced[dice.below(kReduced.size())];
  task.op = static_cast<ReduceOp>(dice.below(5));  // not adasum, which is not exact
  if (task.dtype == DType::boolean && task.op == ReduceOp::average) task.op = ReduceOp::max;
  if (reduces(task.operation) && (task.dtype == DType::float32 || task.dtype == DType::float64))
    task.wire = std::array{DType::float32, DType::float16, DType::bfloat16}[dice.below(3)];
  task.set = dice.below(3) == 0 ? dice.below(sets) : 0;
  task.rows = rows_from(dice, number);
  task.width = dice.below(4) == 0 ? 3 : 1;
  task.root = dice.below(1000);
  task.grouped = task.operation == Operation::allreduce && dice.below(4) == 0;
  task.name = dice.below(10) < 3 ? fmt::format("once.{}", number) : fmt::format("often.{}", number % kNames);
  return task;
}

Work::Work(Task task, std::vector<int> members, int rank)
    : task_(std::move(task)),
      members_(std::move(members)),
      place_(static_cast<std::size_t>(std::find(members_.begin(), members_.end(), rank) - members_.begin())),
      input_(task_.dtype, 0),
      output_(task_.dtype, 0) {
  task_.root %= members_.size();
  const bool exact = std::has_single_bit(members_.size()) && task_.operation != Operation::scan;
  if (task_.op == ReduceOp::average && !exact) task_.op = ReduceOp::sum;  // a third is not exact
  input_ = Elements(task_.dtype, rows_of(place_) * task_.width);
  for (std::size_t i = 0; i < input_.count(); ++i) input_.set(i, value(place_, i));
}

/// 0 to 2: sums and products of a few ranks are exact in every dtype.
int Work::value(std::size_t place, std::size_t index) const {
  const auto value = static_cast<int>((task_.number * 7 + place * 5 + index) % 3);
  return task_.dtype == DType::boolean ? value % 2 : value;
}

/// That the member at this place brings.
std::size_t Work::rows_of(std::size_t place) const {
  switch (task_.operation) {
    case Operation::allgather:
    case Operation::gather: return mixed(task_.number ^ mixed(place)) % (task_.rows + 1);
    case Operation::alltoall: {
      std::size_t rows = 0;
      for (std::size_t to = 0; to < members_.size(); ++to) rows += split(place, to);
      return rows;
    }
    case Operation::barrier: return 0;
    default: return task_.rows;
  }
}

std::size_t Work::split(std::size_t from, std::size_t to) const {
  return mixed(task_.number ^ mixed(from * 64 + to)) % (task_.rows / members_.size() + 1);
}

Entry Work::entry(int process_set) {
  Entry entry;
  entry.operation = task_.operation;
  entry.name = task_.name;
  entry.process_set = process_set;
  if (task_.operation == Operation::barrier) return entry;
  entry.dtype = task_.dtype;
  entry.op = task_.op;
  entry.wire = task_.wire;
  entry.root = members_[task_.root];
  entry.shape = {static_cast<std::int64_t>(rows_of(place_))};
  if (task_.width > 1) entry.shape.push_back(static_cast<std::int64_t>(task_.width));
  entry.input = input_.data();
  if (sizes_its_output(task_.operation)) {
    entry.allocate = [this](const std::vector<std::int64_t>& shape) {
      const auto count = std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
      output_ = Elements(task_.dtype, static_cast<std::size_t>(count));
      return output_.data();
    };
  } else if (task_.operation == Operation::reducescatter) {
    const auto rows = scattered_rows(entry.shape.front(), static_cast<int>(members_.size()))[place_];
    output_ = Elements(task_.dtype, static_cast<std::size_t>(rows) * task_.width);
    entry.output = output_.data();
  } else if (task_.number % 2 == 0 && task_.operation != Operation::reduce) {
    entry.output = input_.data();  // in place
  } else {
    output_ = Elements(task_.dtype, input_.count());
    entry.output = output_.data();
  }
  if (task_.operation == Operation::alltoall) {
    for (std::size_t to = 0; to < members_.size(); ++to)
      entry.splits.push_back(static_cast<std::int64_t>(split(place_, to)));
  }
  return entry;
}

double Work::reduced(std::size_t places, std::size_t index) const {
  double result = value(0, index);
  for (std::size_t place = 1; place < places; ++place) {
    const double next = value(place, index);
    switch (task_.op) {
      case ReduceOp::min: result = std::min(result, next); break;
      case ReduceOp::max: result = std::max(result, next); break;
      case ReduceOp::product: result *= next; break;
      default: result += next;
    }
  }
  if (task_.dtype == DType::boolean) return std::min(result, 1.0);
  if (task_.op != ReduceOp::average) return result;
  const double mean = result / static_cast<double>(places);
  return is_float(task_.dtype) ? mean : std::floor(mean);
}

std::vector<double> Work::rows_between(std::size_t place, std::size_t first, std::size_t count) const {
  std::vector<double> values;
  for (std::size_t i = first * task_.width; i < (first + count) * task_.width; ++i)
    values.push_back(value(place, i));
  return values;
}

std::vector<double> Work::reduced_between(std::size_t places, std::size_t first, std::size_t count) const {
  std::vector<double> values;
  for (std::size_t i = first * task_.width; i < (first + count) * task_.width; ++i)
    values.push_back(reduced(places, i));
  return values;
}

std::vector<double> Work::expected_of_alltoall() const {
  std::vector<double> all;
  for (std::size_t from = 0; from < members_.size(); ++from) {
    std::size_t first = 0;
    for (std::size_t to = 0; to < place_; ++to) first += split(from, to);
    const auto part = rows_between(from, first, split(from, place_));
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

/// Nothing: the output is of no meaning.
std::optional<std::vector<double>> Work::expected() const {
  const std::size_t all = members_.size();
  const auto shares = scattered_rows(static_cast<std::int64_t>(task_.rows), static_cast<int>(all));
  const auto first = static_cast<std::size_t>(
      std::accumulate(shares.begin(), shares.begin() + static_cast<std::ptrdiff_t>(place_), std::int64_t{0}));
  const auto share = static_cast<std::size_t>(shares[place_]);
  switch (task_.operation) {
    case Operation::allreduce: return reduced_between(all, 0, task_.rows);
    case Operation::scan: return reduced_between(place_ + 1, 0, task_.rows);
    case Operation::reducescatter: return reduced_between(all, first, share);
    case Operation::broadcast: return rows_between(task_.root, 0, task_.rows);
    case Operation::scatter: return rows_between(task_.root, first, share);
    case Operation::alltoall: return expected_of_alltoall();
    case Operation::reduce:
      if (place_ != task_.root) return std::nullopt;
      return reduced_between(all, 0, task_.rows);
    case Operation::gather:
      if (place_ != task_.root) return std::vector<double>();
      [[fallthrough]];
    case Operation::allgather: {
      std::vector<double> rows;
      for (std::size_t place = 0; place < all; ++place) {
        const auto part = rows_between(place, 0, rows_of(place));
        rows.insert(rows.end(), part.begin(), part.end());
      }
      return rows;
    }
    default: return std::nullopt;
  }
}

std::string Work::wrong() const {
  const auto wanted = expected();
  if (!wanted) return {};
  const bool in_place = output_.count() == 0 && !sizes_its_output(task_.operation);
  const Elements& got = in_place && !wanted->empty() ? input_ : output_;
  if (got.count() != wanted->size())
    return fmt::format("'{}' ({}, number {}) has {} elements, not {}", task_.name, name(task_.operation),
                       task_.number, got.count(), wanted->size());
  for (std::size_t i = 0; i < wanted->size(); ++i) {
    if (got.at(i) == (*wanted)[i]) continue;
    return fmt::format("'{}' ({} of {}, {}, number {}): element {} of {} is {}, not {}", task_.name,
                       name(task_.operation), name(task_.dtype), name(task_.op), task_.number, i,
                       wanted->size(), got.at(i), (*wanted)[i]);
  }
  return {};
}

}  // namespace hora
