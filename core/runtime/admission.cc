// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/admission.h"

#include "core/base/dtypes.h"
#include "core/base/operations.h"
#include "core/comm/world.h"
#include "core/device/block_floats.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>

namespace hora {
namespace {

class Admission {
 public:
  Admission(const Entry& entry, int rank, const ProcessSets& sets)
      : entry_(entry), traits_(traits(entry.operation)), rank_(rank), sets_(sets) {}

  Asked asked() const {
    switch (entry_.operation) {
      case Operation::join: return {kWorld, join_request()};
      case Operation::add_process_set: return {kWorld, addition()};
      case Operation::remove_process_set: return removal();
      default: return asked_in_set();
    }
  }

 private:
  [[nodiscard]] Asked asked_in_set() const {
    name();
    if (entry_.process_set != kWorld) static_cast<void>(members());
    shape();
    switch (entry_.operation) {
      case Operation::allreduce: allreduce(); break;
      case Operation::broadcast: broadcast(); break;
      case Operation::allgather: allgather(); break;
      case Operation::alltoall: alltoall(members()); break;
      case Operation::reducescatter: reducescatter(); break;
      case Operation::gather: gather(); break;
      case Operation::scatter: scatter(); break;
      case Operation::reduce: reduce(); break;
      case Operation::scan: scan(); break;
      default: break;
    }
    return {entry_.process_set, request(), {}, used_memory()};
  }

  [[nodiscard]] Request request() const {
    Request request;
    request.operation = entry_.operation;
    request.name = entry_.name;
    request.dtype = entry_.dtype;
    request.wire = wire();
    request.shape = entry_.shape;
    if (entry_.operation == Operation::allreduce) request.strides = entry_.strides;
    if (traits_.has_tensor) request.device = entry_.device.kind;
    request.failed_with = shortened(entry_.failed_with, kMostFailureBytes);
    request.check_finite = entry_.check_finite && entry_.operation == Operation::allreduce;
    if (traits_.reduces) {
      request.op = entry_.op;
      request.prescale = entry_.prescale;
      request.postscale = entry_.postscale;
      request.absent = request_is_absent();
    }
    if (traits_.has_root) request.root = entry_.root;
    if (entry_.operation == Operation::alltoall) request.splits = entry_.splits;
    if (entry_.operation == Operation::scatter) {
      if (is_root()) {
        request.splits = entry_.splits;
      } else {
        request.shape.front() = 0;  // only the root's rows are sent
      }
    }
    return request;
  }

  /// In place counts as written everywhere, also where a broadcast only reads: so all ranks refuse the same.
  [[nodiscard]] MemoryUse used_memory() const {
    if (!traits_.has_tensor) return {};
    const std::size_t all = bytes();
    std::size_t written = all;
    if (entry_.operation == Operation::reduce && !is_root()) written = 0;
    if (entry_.operation == Operation::reducescatter) written = bytes_of_own_rows(all);
    if (traits_.sizes_output) written = bytes_of_own_output();
    return memory_use(reads() ? entry_.input : nullptr, all, written == 0 ? nullptr : entry_.output, written);
  }

  /// Of the shape.
  [[nodiscard]] std::size_t bytes() const { return bytes_of(entry_.shape); }

  [[nodiscard]] std::size_t bytes_of(const std::vector<std::int64_t>& shape) const {
    try {
      return static_cast<std::size_t>(elements(shape, entry_.dtype)) * size_of(entry_.dtype);
    } catch (const Error& error) {
      refuse(error.what());
    }
  }

  /// Whether the input is used.
  [[nodiscard]] bool reads() const {
    const bool only_root_reads =
        entry_.operation == Operation::broadcast || entry_.operation == Operation::scatter;
    return only_root_reads ? is_root() : !request_is_absent();
  }

  [[nodiscard]] bool request_is_absent() const {
    return entry_.absent && entry_.operation == Operation::allreduce;
  }

  [[nodiscard]] Request join_request() const {
    Request request;
    request.operation = Operation::join;
    request.name = kJoinName;
    request.divide_by_initial_size = entry_.divide_by_initial_size;
    return request;
  }

  /// One name for the sets that all ranks add: those that mean different sets are told so, instead of waiting
  /// for each other. A set that has a name is added by its ranks alone, so their request has a name of its
  /// own.
  [[nodiscard]] Request addition() const {
    constexpr std::size_t kMostListed = 64;
    ProcessSet set = new_set();
    Request request;
    request.operation = Operation::add_process_set;
    request.name = "hora.add_process_set";
    if (!set.name.empty()) {
      const std::string ranks = fmt::format("{}", fmt::join(set.ranks, ","));
      request.name += fmt::format(".{}", set.name);
      request.name += set.ranks.size() <= kMostListed ? fmt::format("[{}]", ranks)
                                                      : fmt::format("[{} ranks, {:x}]", set.ranks.size(),
                                                                    std::hash<std::string>()(ranks));
    }
    request.ranks = std::move(set.ranks);
    request.set_name = std::move(set.name);
    return request;
  }

  /// All ranks together remove a set without a name. From one that has a name each rank takes its leave.
  [[nodiscard]] Asked removal() const {
    ProcessSet set = old_set();
    Request request;
    request.operation = Operation::remove_process_set;
    request.name = kRemovalName;
    if (!set.name.empty()) return {entry_.process_set, std::move(request)};
    request.ranks = std::move(set.ranks);
    return {kWorld, std::move(request)};
  }

  [[nodiscard]] ProcessSet new_set() const {
    ProcessSet set{entry_.ranks, entry_.set_name};
    std::vector<int>& ranks = set.ranks;
    std::sort(ranks.begin(), ranks.end());
    const std::string text = fmt::format("[{}]", fmt::join(ranks, ", "));
    const auto wrong = [&](const std::string& why) {
      throw Error(Code::invalid_argument, fmt::format("the process set {}: {}", text, why));
    };
    if (ranks.empty()) wrong("it needs one rank at least");
    if (std::adjacent_find(ranks.begin(), ranks.end()) != ranks.end()) wrong("a rank can be in it only once");
    if (ranks.front() < 0 || ranks.back() >= sets_.size())
      wrong(fmt::format("ranks are 0 to {}", sets_.size() - 1));
    if (!set.name.empty()) {
      if (set.name.size() > kMostSetNameBytes)
        wrong(fmt::format("its name has at most {} bytes, not {}", kMostSetNameBytes, set.name.size()));
      if (!std::binary_search(ranks.begin(), ranks.end(), rank_)) {
        wrong(fmt::format("rank {} is not in it; only the ranks of a process set that has a name add it",
                          rank_));
      }
    }
    if (const auto known = sets_.number_of(set)) wrong(there_is_one(set, *known));
    return set;
  }

  [[nodiscard]] ProcessSet old_set() const {
    if (entry_.process_set == kWorld)
      throw Error(Code::invalid_argument, "the process set of all ranks cannot be removed");
    auto set = sets_.find(entry_.process_set);
    if (!set) throw Error(Code::invalid_argument, no_such_set(entry_.process_set));
    if (!set->name.empty()) static_cast<void>(members());
    return *std::move(set);
  }

  /// The ranks of the entry's process set, of which this is one.
  [[nodiscard]] std::vector<int> members() const {
    const auto ranks = sets_.ranks_of(entry_.process_set);
    if (!ranks) refuse(no_such_set(entry_.process_set));
    if (!std::binary_search(ranks->begin(), ranks->end(), rank_)) {
      refuse(fmt::format("rank {} is not a member of the provided process set {}, which has {}", rank_,
                         entry_.process_set, describe_ranks(*ranks)));
    }
    return *ranks;
  }

  [[nodiscard]] bool is_root() const { return entry_.root == rank_; }

  [[noreturn]] void refuse(const std::string& why) const {
    throw Error(Code::invalid_argument, fmt::format("'{}': {}", entry_.name, why));
  }

  void name() const {
    if (entry_.name.empty())
      throw Error(Code::invalid_argument, "a tensor needs a name, the same on all ranks");
    if (entry_.name.size() > kMostNameBytes) {
      throw Error(Code::invalid_argument,
                  fmt::format("'{}...': a name has at most {} bytes, not {}", entry_.name.substr(0, 64),
                              kMostNameBytes, entry_.name.size()));
    }
  }

  void shape() const {
    if (entry_.shape.size() > kMostDimensions) {
      refuse(fmt::format("a tensor has at most {} dimensions, not {}", kMostDimensions, entry_.shape.size()));
    }
    static_cast<void>(bytes_of(entry_.shape));
  }

  [[nodiscard]] bool empty() const { return elements(entry_.shape, entry_.dtype) == 0; }

  void memory(const void* data, const char* which) const {
    if (data == nullptr && !empty()) refuse(fmt::format("its {} is a null pointer", which));
  }

  void allreduce() const {
    if (!entry_.absent) memory(entry_.input, "input");
    memory(entry_.output, "output");
    if (!entry_.strides.empty() && entry_.strides.size() != entry_.shape.size())
      refuse(fmt::format("strides has {} numbers, but the shape has {} dimensions", entry_.strides.size(),
                         entry_.shape.size()));
    if (entry_.op == ReduceOp::adasum && !is_float(entry_.dtype))
      refuse(fmt::format("adasum takes float16, bfloat16, float32 and float64, not {}",
                         hora::name(entry_.dtype)));
    reduction();
  }

  void reduction() const {
    if (is_float8(entry_.dtype)) {
      refuse(fmt::format("{} is moved between ranks, and not reduced; convert the tensor to bfloat16",
                         hora::name(entry_.dtype)));
    }
    if (is_complex(entry_.dtype) && entry_.op != ReduceOp::sum && entry_.op != ReduceOp::average) {
      refuse(fmt::format("{} has sums and averages, and no {}", hora::name(entry_.dtype),
                         hora::name(entry_.op)));
    }
    if (entry_.dtype == DType::boolean && entry_.op == ReduceOp::average) {
      refuse("bool has no average; use sum (or), product (and), min or max");
    }
    const bool scales = entry_.prescale != 1.0 || entry_.postscale != 1.0;
    if (entry_.dtype == DType::boolean && scales)
      refuse("bool cannot be scaled; leave prescale and postscale at 1");
    if (is_bitwise(entry_.op) && is_float(entry_.dtype)) {
      refuse(
          fmt::format("{} takes integers and bool, not {}", hora::name(entry_.op), hora::name(entry_.dtype)));
    }
    if ((is_bitwise(entry_.op) || is_logical(entry_.op)) && scales)
      refuse(fmt::format("{} has no factors; leave prescale and postscale at 1", hora::name(entry_.op)));
    if (!std::isfinite(entry_.prescale) || !std::isfinite(entry_.postscale)) {
      refuse(fmt::format("prescale {} and postscale {} must be finite", entry_.prescale, entry_.postscale));
    }
    if (is_block_float(entry_.wire)) return blocks();
    if (entry_.wire != DType::float32 && !is_half(entry_.wire)) {
      refuse(fmt::format("elements can travel as float16, bfloat16, float8_e4m3fn or float8_e5m2, not as {}",
                         hora::name(entry_.wire)));
    }
  }

  void blocks() const {
    const auto wire = hora::name(entry_.wire);
    if (!traits_.packs)
      refuse(fmt::format("elements of {} cannot travel as {}; let them travel as they are",
                         hora::name(entry_.operation), wire));
    if (!is_float(entry_.dtype))
      refuse(
          fmt::format("elements of {} cannot travel as {}, which is for floats of 16 to 64 bits; let them "
                      "travel as they are",
                      hora::name(entry_.dtype), wire));
    if (entry_.op != ReduceOp::sum && entry_.op != ReduceOp::average)
      refuse(
          fmt::format("elements travel as {} for a sum or an average, not for {}; let them travel as "
                      "bfloat16",
                      wire, hora::name(entry_.op)));
  }

  void root(const std::vector<int>& members) const {
    if (!std::binary_search(members.begin(), members.end(), entry_.root)) {
      refuse(entry_.process_set == kWorld
                 ? fmt::format("there is no root rank {}: ranks are 0 to {}", entry_.root, members.back())
                 : fmt::format("there is no root rank {} in process set {}, which has {}", entry_.root,
                               entry_.process_set, describe_ranks(members)));
    }
  }

  void broadcast() const {
    root(members());
    memory(entry_.input, "input");
    memory(entry_.output, "output");
  }

  void allgather() const {
    if (entry_.shape.empty())
      refuse("a scalar has no first dimension to gather along; make it a tensor of 1 element");
    allocator();
    memory(entry_.input, "input");
  }

  void gather() const {
    root(members());
    allgather();
  }

  void scatter() const {
    const auto ranks = members();
    root(ranks);
    if (entry_.shape.empty()) refuse("a scalar has no first dimension to split; make it a tensor");
    allocator();
    if (!is_root()) return;
    memory(entry_.input, "input");
    if (!entry_.splits.empty()) splits(ranks);
  }

  void reduce() const {
    root(members());
    memory(entry_.input, "input");
    if (is_root()) memory(entry_.output, "output");
    if (entry_.op == ReduceOp::adasum) refuse("reduce does not know adasum; use allreduce");
    reduction();
  }

  void scan() const {
    if (entry_.op == ReduceOp::average || entry_.op == ReduceOp::adasum)
      refuse(fmt::format("scan does not know {}; use another reduction", hora::name(entry_.op)));
    memory(entry_.input, "input");
    memory(entry_.output, "output");
    reduction();
  }

  void allocator() const {
    if (entry_.device.kind != DeviceKind::host && is_each_threads_own(entry_.stream)) {
      refuse(fmt::format(
          "{} cannot be submitted with cudaStreamPerThread: its output is made on another thread, "
          "where that is another stream; use one that cudaStreamCreate has made",
          hora::name(entry_.operation)));
    }
    const bool allocates = entry_.allocate || (entry_.accept && entry_.device.kind != DeviceKind::host);
    if (allocates == entry_.output_rows.has_value()) {
      refuse(fmt::format("{} needs either `allocate`, which makes the output, or `output` and `output_rows`",
                         hora::name(entry_.operation)));
    }
    if (entry_.output_rows.value_or(0) < 0)
      refuse(fmt::format("its output cannot have {} rows", *entry_.output_rows));
    if (bytes_of_own_output() > 0 && entry_.output == nullptr) refuse("its output is a null pointer");
    const ByteRange written = byte_range(entry_.output, bytes_of_own_output());
    const ByteRange read = byte_range(reads() ? entry_.input : nullptr, bytes());
    if (!read.empty() && !written.empty() && read.overlaps(written))
      refuse("its input and its output overlap; they need memory apart");
  }

  void alltoall(const std::vector<int>& members) const {
    if (entry_.shape.empty()) refuse("a scalar has no first dimension to split; make it a tensor");
    allocator();
    memory(entry_.input, "input");
    const auto rows = entry_.shape.front();
    const auto ranks = static_cast<std::int64_t>(members.size());
    if (!entry_.splits.empty()) return splits(members);
    if (rows % ranks != 0) {
      refuse(fmt::format("a first dimension of {} cannot be split evenly between {} ranks; give splits", rows,
                         ranks));
    }
  }

  void splits(const std::vector<int>& members) const {
    const auto rows = entry_.shape.front();
    if (entry_.splits.size() != members.size()) {
      refuse(fmt::format("splits has {} numbers, but the process set has {} ranks", entry_.splits.size(),
                         members.size()));
    }
    std::int64_t left = rows;
    for (const auto split : entry_.splits) {
      if (split < 0 || split > left) {
        refuse(fmt::format(
            "the splits [{}] do not fit a first dimension of {}: none may be negative, and their sum "
            "not more than that",
            fmt::join(entry_.splits, ", "), rows));
      }
      left -= split;
    }
  }

  void reducescatter() const {
    if (entry_.shape.empty()) refuse("a scalar has no first dimension to scatter; make it a tensor");
    if (entry_.op == ReduceOp::adasum) refuse("reducescatter does not know adasum; use allreduce");
    memory(entry_.input, "input");
    if (entry_.shape.front() > 0) output_of_scatter();
    reduction();
  }

  /// A rank that gets no rows needs no output.
  void output_of_scatter() const {
    if (own_rows() > 0) memory(entry_.output, "output");
  }

  /// Of the output that an operation which sizes it is given.
  [[nodiscard]] std::size_t bytes_of_own_output() const {
    std::vector<std::int64_t> shape = entry_.shape;
    if (shape.empty() || !entry_.output_rows) return 0;
    shape.front() = *entry_.output_rows;
    return bytes_of(shape);
  }

  /// Of a reducescatter.
  [[nodiscard]] std::int64_t own_rows() const {
    const auto ranks = members();
    const auto place = std::lower_bound(ranks.begin(), ranks.end(), rank_) - ranks.begin();
    return scattered_rows(entry_.shape.front(),
                          static_cast<int>(ranks.size()))[static_cast<std::size_t>(place)];
  }

  [[nodiscard]] std::size_t bytes_of_own_rows(std::size_t all) const {
    const auto rows = static_cast<std::size_t>(entry_.shape.front());
    return rows == 0 ? 0 : all / rows * static_cast<std::size_t>(own_rows());
  }

  /// To 16 bits only wide floats are narrowed; everything else travels as it is. A logical reduction narrows
  /// nothing, so that no element becomes zero.
  [[nodiscard]] DType wire() const {
    if (traits_.reduces && is_block_float(entry_.wire)) return entry_.wire;
    const bool wide = entry_.dtype == DType::float32 || entry_.dtype == DType::float64;
    const bool narrows = traits_.packs && wide && is_half(entry_.wire) && !is_logical(entry_.op);
    return narrows ? entry_.wire : entry_.dtype;
  }

  const Entry& entry_;
  const OperationTraits& traits_;
  int rank_;
  const ProcessSets& sets_;
};

}  // namespace

Asked admit(const Entry& entry, int rank, const ProcessSets& sets) {
  return Admission(entry, rank, sets).asked();
}

}  // namespace hora
