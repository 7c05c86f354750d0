// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/finisher.h"

#include "core/base/memory.h"

#include <fmt/format.h>

#include <utility>

namespace hora {

void Finisher::launch(RunningBatch& batch, const std::shared_ptr<Event>& end) {
  for (auto& item : batch.items) {
    if (item.loan.handle) table_.launch(item.loan, item.result, end);
  }
}

void Finisher::finish(RunningBatch batch, const Status& status, bool ended) {
  for (auto& item : batch.items) {
    if (!status.ok()) {
      const std::string named = fmt::format("'{}'", item.loan.entry->name);
      const bool is_known = status.message.find(named) != std::string::npos;
      item.result.status = {
          table_.end_code().of(status.code),
          fmt::format("{} ({} holds undefined values)", status.message, is_known ? "its output" : named)};
    } else if (batch.flag) {
      item.result.finite = *batch.flag == 0;
    }
    if (!ended && item.memory) keep_for_ever(item.memory);
    give_back(std::move(item), batch, !ended);
  }
  batch.items.clear();
  if (!ended) keep_for_ever(std::make_shared<RunningBatch>(std::move(batch)));
}

void Finisher::give_back(BatchItem item, const RunningBatch& batch, bool keeps) {
  if (!item.loan.handle) return;  // a stand-in
  if (recorder_.on() || tracer_.on()) record(item, batch);
  table_.finish(std::move(item.loan), std::move(item.result), keeps);
}

void Finisher::record(const BatchItem& item, const RunningBatch& batch) {
  const Entry& entry = *item.loan.entry;
  Record record{entry.name,    entry.operation,     entry.dtype,
                entry.shape,   item.loan.submitted, batch.decided,
                batch.started, Clock::now(),        item.result.status.code,
                group_};
  if (tracer_.on()) tracer_.add({record, group_, batch.together, batch.spans});
  recorder_.add(std::move(record));
}

}  // namespace hora
