// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/local/local_group.h"
#include "test/support/hierarchical_ranks.h"
#include "test/support/one_core.h"
#include "test/support/threads.h"

#include <hora/hora.h>

#include <cstdlib>
#include <functional>
#include <string_view>

namespace hora {

/// How ranks that are threads move tensors: by rendezvous, or, with TEST_PLANE=hierarchical in the
/// environment, as if there were two of them on each host. By rank; empty: by rendezvous.
inline std::vector<std::unique_ptr<Collective>> collectives_of_local_job(int size) {
  const char* plane = std::getenv("TEST_PLANE");
  if (plane == nullptr) return {};
  if (std::string_view(plane) != "hierarchical") throw Error(Code::invalid_argument, "TEST_PLANE");
  return connect_hierarchical_ranks(size, [](int rank) { return rank / 2; }, true);
}

/// Runs `rank_main` on every rank of a job whose ranks are threads. A rank leaves the job when its function
/// returns. `on_one_host`: else the runtime is not told that they share memory.
inline void run_local_job(int size, const std::function<void(Runtime&)>& rank_main, Config config = {},
                          bool on_one_host = true) {
  local::LocalGroup group(size);
  auto collectives = collectives_of_local_job(size);
  run_ranks(size, [&](int rank) {
    Config mine = config;
    mine.rank = mine.local_rank = rank;
    mine.size = mine.local_size = size;
    World world = group.join(rank);
    if (!collectives.empty()) world.lane.collective = std::move(collectives[static_cast<std::size_t>(rank)]);
    if (!on_one_host) world.vote.reset();
    Runtime runtime(std::move(world), mine);
    rank_main(runtime);
  });
}

/// Runs `rank_main` on ranks that can overlap (Runtime::can_overlap), and on ranks that cannot.
inline void run_with_and_without_overlap(int size, const std::function<void(Runtime&)>& rank_main) {
  run_local_job(size, rank_main, {}, false);
  const OneCore one;
  run_local_job(size, rank_main);
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
