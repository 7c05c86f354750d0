// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/local/local_group.h"
#include "test/support/threads.h"

#include <hora/hora.h>

#include <functional>

namespace hora {

/// Runs `rank_main` on every rank of a job whose ranks are threads. A rank leaves the job when its function
/// returns.
inline void run_local_job(int size, const std::function<void(Runtime&)>& rank_main, Config config = {}) {
  LocalGroup group(size);
  run_ranks(size, [&](int rank) {
    Config mine = config;
    mine.rank = mine.local_rank = rank;
    mine.size = mine.local_size = size;
    Runtime runtime(group.join(rank), mine);
    rank_main(runtime);
  });
}

/// An entry that reduces or broadcasts `data` in place.
template <typename T>
Entry in_place(Operation operation, std::string name, DType dtype, std::vector<T>& data) {
  Entry entry;
  entry.operation = operation;
  entry.name = std::move(name);
  entry.dtype = dtype;
  entry.shape = {static_cast<std::int64_t>(data.size())};
  entry.input = data.data();
  entry.output = data.data();
  entry.op = ReduceOp::sum;
  return entry;
}

}  // namespace hora
