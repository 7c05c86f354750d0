// SPDX-License-Identifier: Apache-2.0
// A rank of an elastic job that trains a model of one number, and writes down when each step counted:
//
//   elastic_worker STEPS MEBIBYTES COMPUTE_MICROSECONDS FOLDER
//
// Its file in FOLDER is named by its process. Each line has the nanoseconds of CLOCK_MONOTONIC, the step, the
// generation, the rank and the size.
#include <hora/hora.h>

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <span>
#include <string>

namespace {

using Clock = std::chrono::steady_clock;
constexpr std::size_t kGradients = 8;  // tensors of equal size

/// Gradients in the memory that ranks share.
class Gradients {
 public:
  Gradients(hora::Runtime& hora, std::size_t bytes)
      : count_(bytes / sizeof(float) / kGradients),
        memory_(hora.allocate(count_ * kGradients * sizeof(float))) {}

  /// Each rank brings the number of the step, so the average is this number.
  void reduce(hora::Runtime& hora, std::uint64_t step) {
    std::vector<hora::Entry> group(kGradients);
    for (std::size_t i = 0; i < kGradients; ++i) {
      const auto all = part(i);
      std::fill(all.begin(), all.end(), static_cast<float>(step));
      group[i].name = fmt::format("gradient {}", i);
      group[i].shape = {static_cast<std::int64_t>(count_)};
      group[i].input = group[i].output = all.data();
      group[i].op = hora::ReduceOp::average;
    }
    for (const auto& handle : hora.submit(std::move(group))) handle.wait();
  }
  [[nodiscard]] bool are(std::uint64_t step) const {
    for (std::size_t i = 0; i < kGradients; ++i) {
      const auto all = part(i);
      if (all.front() != static_cast<float>(step) || all.back() != all.front()) return false;
    }
    return true;
  }

 private:
  [[nodiscard]] std::span<float> part(std::size_t i) const {
    return {reinterpret_cast<float*>(memory_.get()) + i * count_, count_};
  }
  std::size_t count_;
  std::shared_ptr<std::byte> memory_;
};

void compute(std::chrono::microseconds time) {
  const auto until = Clock::now() + time;
  while (Clock::now() < until) {
  }
}

/// Makes one step, in as many generations as that takes.
void make(hora::Runtime& hora, Gradients& gradients, std::uint64_t step, std::chrono::microseconds time) {
  while (true) {
    try {
      compute(time);
      gradients.reduce(hora, step);
    } catch (const hora::Error& error) {
      if (error.code() != hora::Code::generation_ended) throw;
      hora.next_generation();
      continue;
    }
    if (hora.commit()) return;
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  const auto steps = static_cast<std::uint64_t>(std::atoll(argv[1]));
  const std::chrono::microseconds time(std::atoll(argv[3]));
  try {
    auto hora = hora::init();
    Gradients gradients(hora, static_cast<std::size_t>(std::atof(argv[2]) * (1 << 20)));
    const std::unique_ptr<FILE, int (*)(FILE*)> record(
        std::fopen(fmt::format("{}/{}", argv[4], ::getpid()).c_str(), "w"), &std::fclose);
    double model = 0;
    for (std::uint64_t step = 1; step <= steps; ++step) {
      make(hora, gradients, step, time);
      if (!gradients.are(step)) {
        fmt::print(stderr, "the gradients of step {} are wrong\n", step);
        return 3;
      }
      model += static_cast<double>(step);
      fmt::print(record.get(), "{} {} {} {} {}\n", Clock::now().time_since_epoch().count(), step,
                 hora.generation(), hora.rank(), hora.size());
      std::fflush(record.get());
      if (step == 3) {
        fmt::print("trains {}\n", ::getpid());
        std::fflush(stdout);
      }
    }
    fmt::print("model {:g} on rank {} of {} in generation {}\n", model, hora.rank(), hora.size(),
               hora.generation());
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
