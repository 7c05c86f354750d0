// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/runtime/connect.h"
#include "core/runtime/elastic_generations.h"
#include "core/runtime/job.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <span>

namespace hora {

inline constexpr std::size_t kElasticCount = 50'000;  // of the elements of its gradient

/// Nobody is taken for lost who is only slow: these processes are threads, which nobody can kill.
inline elastic::ElasticPolicy policy_for(int processes, int least = 1) {
  return {.min_members = least,
          .max_members = processes,
          .first_members = processes,
          .silence = std::chrono::minutes(10),
          .stop_timeout = std::chrono::minutes(10)};
}

/// A process of an elastic job, with gradients in the memory that ranks share, and a model of one number.
class ElasticProcess {
 public:
  explicit ElasticProcess(const Config& settings, const Formation::Connect& connect_with = connect)
      : job_(settings, make_elastic_generations(settings, connect_with)),
        memory_(job_.session()->allocate(kElasticCount * sizeof(float))) {}

  /// Begins a training step: all ranks bring its number, and the average is the same number.
  Handle bring(std::uint64_t step) {
    const std::span all(reinterpret_cast<float*>(memory_.get()), kElasticCount);
    std::fill(all.begin(), all.end(), static_cast<float>(step));
    Entry entry;
    entry.name = "gradient";
    entry.shape = {static_cast<std::int64_t>(kElasticCount)};
    entry.input = entry.output = all.data();
    entry.op = ReduceOp::average;
    return job_.session()->submit(std::move(entry));
  }

  /// Makes a step, whatever happens.
  void step() {
    while (!try_step()) {
    }
    model_ += gradient();
    ++made_;
  }

  void train_until(std::uint64_t step_number) {
    while (made_ < step_number) step();
  }

  /// Gets the state from a rank that has it, or gives it, where a rank of this generation needs it.
  void share_state() {
    while (job_.state_root() >= 0 && job_.lasting().steps.committed > 0 &&
           shared_in_ != membership().generation) {
      std::array<double, 2> state{model_, static_cast<double>(made_)};
      Entry entry;
      entry.name = "state";
      entry.operation = Operation::broadcast;
      entry.dtype = DType::float64;
      entry.shape = {2};
      entry.input = entry.output = state.data();
      entry.root = job_.state_root();
      const std::uint64_t generation = membership().generation;
      try {
        job_.session()->submit(std::move(entry)).wait();
      } catch (const Error& error) {
        go_on_after(error);
        continue;
      }
      shared_in_ = generation;
      model_ = static_cast<float>(state[0]);
      made_ = static_cast<std::uint64_t>(state[1]);
    }
  }

  [[nodiscard]] float gradient() const { return *reinterpret_cast<float*>(memory_.get()); }
  [[nodiscard]] float model() const { return model_; }
  [[nodiscard]] std::uint64_t made() const { return made_; }
  [[nodiscard]] Job& job() { return job_; }
  [[nodiscard]] Membership membership() const { return job_.session()->membership(); }

 private:
  bool try_step() {
    if (job_.change_is_due()) static_cast<void>(job_.next_generation());
    share_state();
    try {
      bring(made_ + 1).wait();
    } catch (const Error& error) {
      go_on_after(error);
      return false;
    }
    return job_.commit();
  }

  void go_on_after(const Error& error) {
    if (error.code() != Code::generation_ended) throw error;
    const std::uint64_t counted = job_.next_generation();
    EXPECT_TRUE(counted == made_ || made_ == 0) << "a step for which this rank has not voted";
  }

  Job job_;
  std::shared_ptr<std::byte> memory_;
  float model_ = 0;
  std::uint64_t made_ = 0;
  std::uint64_t shared_in_ = 0;  // the generation in which the state was shared
};

/// The model after so many steps, however many ranks made them.
inline float model_after(std::uint64_t steps) { return static_cast<float>(steps * (steps + 1) / 2); }

}  // namespace hora
