// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/dtypes.h"
#include "core/fuse/pack.h"
#include "core/negotiate/message.h"
#include "core/runtime/tensor_table.h"

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace hora {

/// A decision, and this rank's tensor for it. Moves.
struct BatchItem {
  const Decision* decision = nullptr;  ///< null after the work was given to a GPU
  Loan loan;                           ///< without a handle: a stand-in
  Result result;
  /// The memory of a stand-in or of an output, until the work is done.
  std::shared_ptr<std::byte> memory = {};
};

/// A batch from its first move until its tensors are given back. Moves.
struct RunningBatch {
  TimePoint decided;
  TimePoint started;
  int together = 1;  ///< how many tensors it has
  std::vector<BatchItem> items = {};
  std::vector<Span> spans = {};  ///< the stages of the move, for a timeline
  std::shared_ptr<std::uint32_t> flag =
      {};  ///< set by the work if an output is not finite; null: not asked for
  std::vector<std::shared_ptr<std::byte>> outgrown = {};  ///< buffers that the work may still use
};

/// Whether the output that the entry brings (Entry::output_rows) takes a result of this shape; if not, the
/// item has failed.
[[nodiscard]] inline bool takes_result(BatchItem& item, const std::vector<std::int64_t>& shape) {
  const Entry& entry = *item.loan.entry;
  if (shape.front() == *entry.output_rows) return true;
  item.result.status = {Code::mismatch, fmt::format("'{}': its output has {} rows, but the result has {}",
                                                    entry.name, *entry.output_rows, shape.front())};
  return false;
}

[[nodiscard]] inline std::size_t element_count(const Request& request) {
  return static_cast<std::size_t>(elements(request.shape, request.dtype));
}
[[nodiscard]] inline std::size_t byte_count(const Request& request) {
  return element_count(request) * size_of(request.dtype);
}

/// How many numbers a reduction of the request's elements has.
[[nodiscard]] inline std::size_t number_count(const Request& request) {
  return element_count(request) * numbers_of(request.dtype).each;
}

/// The reduction that a request asks for; `divisor`: that of an average.
[[nodiscard]] inline Reduction reduction_of(const Request& request, int divisor) {
  const bool average = request.op == ReduceOp::average;
  return {numbers_of(request.wire).dtype, average ? ReduceOp::sum : request.op, request.prescale,
          request.postscale, average ? divisor : 1};
}

}  // namespace hora
