// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace hora::rounds {

/// Ranks of which one runs at a time. A random one goes on whenever the running one yields or waits, so a
/// seed says everything that happens. Each rank is a thread; the mutex passes the turn from one to the next.
class Turns {
 public:
  Turns(int ranks, unsigned seed) : waits_for_(static_cast<std::size_t>(ranks)), random_(seed) {}

  /// Runs all ranks to their ends. Throws the first exception of one, also that all wait for ever.
  void run(const std::function<void(int rank)>& rank_main) {
    std::vector<std::thread> threads;
    for (int rank = 0; rank < static_cast<int>(waits_for_.size()); ++rank) {
      threads.emplace_back([this, rank, &rank_main] {
        try {
          wait(rank, [] { return true; });
          rank_main(rank);
        } catch (const std::exception& error) {
          const std::lock_guard lock(mutex_);
          if (error_.empty()) error_ = error.what();
        }
        const std::lock_guard lock(mutex_);
        waits_for_[static_cast<std::size_t>(rank)] = nullptr;
        ended_.insert(rank);
        choose();
      });
    }
    for (auto& thread : threads) thread.join();
    if (!error_.empty()) throw std::runtime_error(error_);
  }

  /// Lets others run until the condition holds, which only depends on the calling ranks.
  void wait(int rank, const std::function<bool()>& condition) {
    std::unique_lock lock(mutex_);
    waits_for_[static_cast<std::size_t>(rank)] = condition;
    if (++arrived_ >= waits_for_.size()) choose();
    turn_.wait(lock, [&] { return running_ == rank || !error_.empty(); });
    if (!error_.empty()) throw std::runtime_error(error_);
    waits_for_[static_cast<std::size_t>(rank)] = nullptr;
  }

 private:
  void choose() {
    std::vector<int> able;
    for (std::size_t rank = 0; rank < waits_for_.size(); ++rank) {
      if (waits_for_[rank] && waits_for_[rank]()) able.push_back(static_cast<int>(rank));
    }
    if (able.empty() && ended_.size() < waits_for_.size() && error_.empty())
      error_ = "all ranks wait for each other";
    running_ = able.empty() ? -1 : able[random_() % able.size()];
    turn_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable turn_;
  std::vector<std::function<bool()>> waits_for_;  // of ranks that do not run
  std::set<int> ended_;
  std::mt19937 random_;
  std::size_t arrived_ = 0;  // calls of `wait`; nobody runs before all ranks have begun
  int running_ = -1;
  std::string error_;
};

/// The contributions of ranks to one operation, element by element.
struct Brought {
  std::vector<long> values = {};
  bool present = false;
  std::string failed_with = {};
};

/// Operations that the ranks match by name, as the runtime does.
class Exchange {
 public:
  explicit Exchange(int ranks) : ranks_(ranks) {}

  using Ticket = std::pair<std::string, int>;

  /// Throws if this rank already has an operation of this name under way.
  Ticket submit(int rank, const std::string& name, const Brought& brought) {
    const int count = counts_[{rank, name}]++;
    if (count > 0 && !is_done({name, count - 1}))
      throw std::runtime_error(name + " was submitted twice by rank " + std::to_string(rank));
    Operation& operation = operations_[{name, count}];
    ++operation.arrived;
    auto& values = operation.result.values;
    values.resize(std::max(values.size(), brought.values.size()));
    for (std::size_t i = 0; i < brought.values.size(); ++i) values[i] += brought.values[i];
    operation.result.present |= brought.present;
    if (operation.result.failed_with.empty()) operation.result.failed_with = brought.failed_with;
    return {name, count};
  }

  [[nodiscard]] bool is_done(const Ticket& ticket) const { return operations_.at(ticket).arrived == ranks_; }
  [[nodiscard]] const Brought& result(const Ticket& ticket) const { return operations_.at(ticket).result; }
  [[nodiscard]] bool is_idle() const {
    return std::all_of(operations_.begin(), operations_.end(),
                       [this](const auto& each) { return each.second.arrived == ranks_; });
  }

 private:
  struct Operation {
    int arrived = 0;
    Brought result = {};
  };
  int ranks_;
  std::map<Ticket, Operation> operations_;
  std::map<std::pair<int, std::string>, int> counts_;
};

}  // namespace hora::rounds
