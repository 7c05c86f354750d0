// SPDX-License-Identifier: Apache-2.0
#include "test/support/fake_gpu/host_kernels/thread_block.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

thread_local HostIndex threadIdx;
thread_local HostIndex blockIdx;

namespace hora {
namespace {

/// A launch while a thread runs it.
class Launch {
 public:
  /// That of the calling thread. It is on the thread's stack: an object of the thread itself would be
  /// destroyed after the thread has told others that it ends.
  static Launch& of_this_thread() { return *current; }

  bool run(const HostLaunch& launch) {
    current = this;
    launch_ = &launch;
    for (blockIdx.x = 0; blockIdx.x < launch.grid; ++blockIdx.x) {
      next_ = 0;
      any_ = all_came_ = false;
      begin_threads();
      if (launch.traffic != nullptr) launch.traffic->end_block();
    }
    return aligned_;
  }

  bool wait_for_all(bool predicate) {
    if (all_came_) {
      std::fputs("a kernel waits for its block a second time\n", stderr);
      std::abort();
    }
    any_ = any_ || predicate;
    const unsigned thread = threadIdx.x;
    begin_threads();
    all_came_ = true;
    threadIdx.x = thread;
    return any_;
  }

  void exchange_largest(std::uint32_t* values, unsigned count, unsigned neighbours) {
    given_.resize(launch_->threads);
    given_[threadIdx.x].assign(values, values + count);
    wait_for_all(false);
    const unsigned first = threadIdx.x / neighbours * neighbours;
    for (unsigned thread = first; thread < first + neighbours; ++thread) {
      for (unsigned k = 0; k < count; ++k) values[k] = std::max(values[k], given_[thread].at(k));
    }
  }

  bool access(Direction direction, std::uint64_t address, unsigned bytes) {
    if (address % bytes != 0) return aligned_ = false;
    if (launch_->traffic != nullptr) launch_->traffic->note(direction, threadIdx.x, address, bytes);
    return true;
  }

 private:
  void begin_threads() {
    while (next_ < launch_->threads) {
      threadIdx.x = next_++;
      launch_->call(launch_->kernel, launch_->table);
    }
  }

  static thread_local Launch* current;

  const HostLaunch* launch_ = nullptr;
  bool aligned_ = true;
  // Of the block at hand.
  unsigned next_ = 0;                              // thread to begin
  bool any_ = false;                               // of the predicates
  bool all_came_ = false;                          // to the place where they wait
  std::vector<std::vector<std::uint32_t>> given_;  // by each thread, to its neighbours
};

thread_local Launch* Launch::current = nullptr;

}  // namespace

bool access_global(Direction direction, std::uint64_t address, unsigned bytes) {
  return Launch::of_this_thread().access(direction, address, bytes);
}

void exchange_largest(std::uint32_t* values, unsigned count, unsigned neighbours) {
  Launch::of_this_thread().exchange_largest(values, count, neighbours);
}

bool hora_run_blocks(const HostLaunch& launch) { return Launch().run(launch); }

}  // namespace hora

int __syncthreads_or(int predicate) {
  return hora::Launch::of_this_thread().wait_for_all(predicate != 0) ? 1 : 0;
}
