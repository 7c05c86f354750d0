// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/host_completion.h"

#include "core/base/memory.h"
#include "core/base/operations.h"
#include "core/device/neutral.h"

#include <utility>

namespace hora {

void HostCompletion::complete(RunningBatch batch, const Status& failure) {
  finisher_.finish(std::move(batch), failure, true);
}

std::shared_ptr<std::byte> HostCompletion::stand_in(const Request& request) {
  auto memory = allocate_aligned(byte_count(request));
  if (traits(request.operation).from_joined == FromJoined::neutral)
    fill_neutral(memory.get(), request.dtype, request.op, element_count(request));
  return memory;
}

void* HostCompletion::allocate(BatchItem& item, const std::vector<std::int64_t>& shape) {
  const Entry& entry = *item.loan.entry;
  if (entry.allocate) return entry.allocate(shape);
  if (takes_result(item, shape)) return entry.output;
  const auto bytes = static_cast<std::size_t>(elements(shape, entry.dtype)) * size_of(entry.dtype);
  item.memory = allocate_aligned(bytes);  // the others get theirs
  return item.memory.get();
}

void HostCompletion::on_host(std::span<const Segment> segments, std::size_t /*each*/, const HostWork& work) {
  work(*lane_.collective, segments);
}

}  // namespace hora
