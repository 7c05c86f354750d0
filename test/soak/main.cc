// SPDX-License-Identifier: Apache-2.0
// hrun -np N soak_worker [OPERATIONS [SEED]]: operations of random kinds, dtypes, sizes and process sets,
// which every rank submits in an order of its own and with delays of its own; messages, joins and new process
// sets in between. Every result is checked. Ends with 1 if one is wrong, or if memory, descriptors or threads
// grow.
#include "test/soak/tasks.h"

#include <fmt/format.h>
#include <malloc.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <map>
#include <numeric>
#include <random>
#include <thread>

namespace hora {
namespace {

constexpr std::uint64_t kWindow = 100;      // tasks that are submitted together; two such are under way
constexpr std::uint64_t kNewSetEvery = 20;  // windows
constexpr std::uint64_t kJoinEvery = 50;    // windows
constexpr std::uint64_t kReports = 10;
constexpr double kMostGrowth = 2.0;  // MiB, from half of the way to its end
// Ranks remember some thousand decisions of each process set; before they do all memory grows.
constexpr std::uint64_t kUntilCachesAreFull = 700'000;

/// The resources that this process holds. The bytes are those in use: freed memory that the allocator keeps
/// for later does not count.
struct Held {
  double megabytes = 0;
  std::ptrdiff_t descriptors = 0;
  std::ptrdiff_t threads = 0;
};

std::ptrdiff_t entries_in(const char* folder) {
  return std::distance(std::filesystem::directory_iterator(folder), std::filesystem::directory_iterator());
}

Held held_now() {
  const struct mallinfo2 heap = ::mallinfo2();
  return {static_cast<double>(heap.uordblks + heap.hblkhd) / (1 << 20), entries_in("/proc/self/fd"),
          entries_in("/proc/self/task")};
}

class Soak {
 public:
  Soak(std::uint64_t operations, std::uint64_t seed)
      : operations_(operations),
        seed_(seed),
        own_(static_cast<unsigned>(seed * 97) + static_cast<unsigned>(hora_.rank())) {
    std::vector<int> all(static_cast<std::size_t>(hora_.size()));
    std::iota(all.begin(), all.end(), 0);
    sets_.push_back({0, all});
    for (const std::uint64_t mask : {0b0011U, 0b1110U, 0b0101U}) add_set(mask);
  }

  /// Whether all went well.
  bool run() {
    const auto begin = std::chrono::steady_clock::now();
    Held middle;
    std::uint64_t reported = 0;
    for (std::uint64_t window = 0; window * kWindow < operations_; ++window) {
      submit(window);
      if (windows_.size() > 1) finish_one();
      if (window % kNewSetEvery == kNewSetEvery - 1) renew_set(window);
      if (window % kJoinEvery == kJoinEvery - 1) join();
      const std::uint64_t done = std::min((window + 1) * kWindow, operations_);
      if (done * kReports / operations_ == reported) continue;
      reported = done * kReports / operations_;
      if (reported == kReports / 2) {
        finish();
        middle = held_now();
      }
      report(done, begin);
    }
    finish();
    const Held end = held_now();
    const bool full = operations_ >= kUntilCachesAreFull;
    const bool grew = (full && end.megabytes > middle.megabytes + kMostGrowth) ||
                      end.descriptors != middle.descriptors || end.threads != middle.threads;
    if (grew) {
      fmt::print(
          "rank {} holds {:.1f} MiB, {} descriptors and {} threads, and half-way held {:.1f}, {} and {}\n",
          hora_.rank(), end.megabytes, end.descriptors, end.threads, middle.megabytes, middle.descriptors,
          middle.threads);
    }
    return wrongs_ == 0 && !grew;
  }

 private:
  struct Set {
    int number;
    std::vector<int> ranks;
  };
  struct Running {
    std::unique_ptr<Work> work;
    Handle handle;
  };
  /// A message that this rank sends, and one that it receives.
  struct Exchange {
    std::vector<std::int64_t> sent;
    std::vector<std::int64_t> got;
    int source;
    std::vector<Handle> handles;
  };
  struct Window {
    std::vector<Running> works;
    Exchange exchange;
    std::uint64_t number = 0;
  };

  void add_set(std::uint64_t mask) {
    std::vector<int> ranks;
    for (int rank = 0; rank < hora_.size(); ++rank) {
      if ((mask >> (rank % 4) & 1) != 0) ranks.push_back(rank);
    }
    const bool known =
        std::any_of(sets_.begin(), sets_.end(), [&](const Set& set) { return set.ranks == ranks; });
    if (ranks.size() > 1 && !known) sets_.push_back({hora_.add_process_set(ranks), ranks});
  }

  /// The last of the sets gives way to another one.
  void renew_set(std::uint64_t window) {
    finish();
    if (sets_.size() < 2) return;
    hora_.remove_process_set(sets_.back().number);
    sets_.pop_back();
    add_set(std::array<std::uint64_t, 4>{0b0110, 0b1001, 0b0111, 0b1101}[window / kNewSetEvery % 4]);
  }

  void join() {
    finish();
    dawdle(1);
    hora_.join();
  }

  [[nodiscard]] bool is_member(const Set& set) const {
    return std::find(set.ranks.begin(), set.ranks.end(), hora_.rank()) != set.ranks.end();
  }

  /// Some time passes, on one of so many calls.
  void dawdle(unsigned one_in) {
    if (own_() % one_in == 0) std::this_thread::sleep_for(std::chrono::microseconds(own_() % 2000));
  }

  void submit(std::uint64_t window) {
    // Groups stay together; all else is shuffled.
    std::vector<std::vector<Task>> groups;
    const std::uint64_t end = std::min((window + 1) * kWindow, operations_);
    for (std::uint64_t number = window * kWindow; number < end; ++number) {
      Task task = task_of(seed_, number, sets_.size());
      const bool together =
          !groups.empty() && groups.back().back().grouped && groups.back().back().set == task.set;
      if (together && task.operation == Operation::allreduce) {
        groups.back().push_back(std::move(task));
      } else {
        groups.push_back({std::move(task)});
      }
    }
    std::shuffle(groups.begin(), groups.end(), own_);
    Window& made = windows_.emplace_back();
    made.number = window;
    for (auto& group : groups) {
      const Set& set = sets_[group.front().set];
      if (!is_member(set)) continue;
      dawdle(200);
      std::vector<Entry> entries;
      std::vector<std::unique_ptr<Work>> works;
      for (auto& task : group) {
        works.push_back(std::make_unique<Work>(std::move(task), set.ranks, hora_.rank()));
        entries.push_back(works.back()->entry(set.number));
      }
      std::vector<Handle> handles;
      if (entries.size() == 1) {
        handles.push_back(hora_.submit(std::move(entries.front())));
      } else {
        handles = hora_.submit(std::move(entries));
      }
      for (std::size_t i = 0; i < works.size(); ++i) made.works.push_back({std::move(works[i]), handles[i]});
    }
    write(made.exchange, window);
  }

  static std::int64_t value_of(int from, std::uint64_t window) {
    return static_cast<std::int64_t>(window) * 64 + from;
  }
  static std::size_t length(std::uint64_t window) { return window % 16 == 0 ? 30'000 : window % 50; }

  void write(Exchange& exchange, std::uint64_t window) {
    const int step = 1 + static_cast<int>(window) % std::max(1, hora_.size() - 1);
    const int to = (hora_.rank() + step) % hora_.size();
    exchange.source = (hora_.rank() + hora_.size() - step) % hora_.size();
    exchange.sent.assign(length(window), value_of(hora_.rank(), window));
    exchange.got.assign(length(window), -1);
    const auto message = [&](int peer) {
      Message one;
      one.peer = peer;
      one.tag = static_cast<int>(window % 7);
      one.dtype = DType::int64;
      one.shape = {static_cast<std::int64_t>(length(window))};
      return one;
    };
    Message incoming = message(exchange.source);
    incoming.output = exchange.got.data();
    exchange.handles.push_back(hora_.receive(std::move(incoming)));
    Message outgoing = message(to);
    outgoing.input = exchange.sent.data();
    exchange.handles.push_back(hora_.send(std::move(outgoing)));
  }

  void finish_one() {
    Window& window = windows_.front();
    for (const auto& running : window.works) {
      running.handle.wait();
      note(running.work->wrong());
    }
    for (const auto& handle : window.exchange.handles) handle.wait();
    const std::int64_t wanted = value_of(window.exchange.source, window.number);
    for (const auto got : window.exchange.got) {
      if (got == wanted) continue;
      note(fmt::format("a message of rank {} holds {}, not {}", window.exchange.source, got, wanted));
      break;
    }
    windows_.pop_front();
  }

  void finish() {
    while (!windows_.empty()) finish_one();
  }

  void note(const std::string& wrong) {
    constexpr int kMostTold = 10;
    if (wrong.empty()) return;
    if (++wrongs_ <= kMostTold) fmt::print("rank {}: {}\n", hora_.rank(), wrong);
  }

  void report(std::uint64_t done, std::chrono::steady_clock::time_point begin) {
    if (hora_.rank() != 0) return;
    const Held held = held_now();
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
    fmt::print("{} operations in {:.1f} s, {:.0f} a second; {:.1f} MiB, {} descriptors, {} threads\n", done,
               time.count(), static_cast<double>(done) / time.count(), held.megabytes, held.descriptors,
               held.threads);
    std::fflush(stdout);
  }

  Runtime hora_ = init();
  const std::uint64_t operations_;
  const std::uint64_t seed_;
  std::minstd_rand own_;  // differs between ranks
  std::vector<Set> sets_;
  std::deque<Window> windows_;
  std::uint64_t wrongs_ = 0;
};

}  // namespace
}  // namespace hora

int main(int count, char** words) {
  const auto number = [&](int index, std::uint64_t otherwise) {
    return count > index ? std::strtoull(words[index], nullptr, 10) : otherwise;
  };
  hora::Soak soak(number(1, 1'000'000), number(2, 1));
  return soak.run() ? 0 : 1;
}
