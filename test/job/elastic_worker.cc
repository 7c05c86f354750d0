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
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <span>
#include <string>
#include <thread>

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

/// The training: a model of one number, and how many steps were made.
struct State {
  double model = 0;
  std::uint64_t made = 0;
  std::uint64_t shared_in = 0;  ///< the generation in which ranks that have joined got it
};

void go_on_after(const hora::Error& error, hora::Runtime& hora) {
  if (error.code() != hora::Code::generation_ended) throw error;
  hora.next_generation();
}

/// Gives the state to the ranks that have just joined, or gets it.
void share(hora::Runtime& hora, State& state) {
  while (hora.state_root() >= 0 && state.shared_in != hora.generation()) {
    const std::uint64_t generation = hora.generation();
    std::array<double, 2> numbers{state.model, static_cast<double>(state.made)};
    hora::Entry entry;
    entry.operation = hora::Operation::broadcast;
    entry.name = "state";
    entry.dtype = hora::DType::float64;
    entry.shape = {2};
    entry.input = entry.output = numbers.data();
    entry.root = hora.state_root();
    try {
      hora.submit(std::move(entry)).wait();
    } catch (const hora::Error& error) {
      go_on_after(error, hora);
      continue;
    }
    state = {numbers[0], static_cast<std::uint64_t>(numbers[1]), generation};
  }
}

/// The rank that has voted for a step.
struct Voter {
  std::uint64_t generation;
  int rank;
  int size;
};

/// Makes one step, in as many generations as that takes.
Voter make(hora::Runtime& hora, Gradients& gradients, State& state, std::chrono::microseconds time) {
  while (true) {
    if (hora.change_is_due()) hora.next_generation();
    share(hora, state);
    try {
      std::this_thread::sleep_for(time);  // as if a GPU computed
      gradients.reduce(hora, state.made + 1);
    } catch (const hora::Error& error) {
      go_on_after(error, hora);
      continue;
    }
    const Voter voter{hora.generation(), hora.rank(), hora.size()};  // others after a loss
    if (!hora.commit()) continue;
    ++state.made;
    state.model += static_cast<double>(state.made);
    return voter;
  }
}

/// Returns the exit code.
int train(hora::Runtime& hora, std::uint64_t steps, double mebibytes, std::chrono::microseconds time,
          const std::string& folder) {
  Gradients gradients(hora, static_cast<std::size_t>(mebibytes * (1 << 20)));
  const std::unique_ptr<FILE, int (*)(FILE*)> record(
      std::fopen(fmt::format("{}/{}", folder, ::getpid()).c_str(), "w"), &std::fclose);
  State state;
  if (hora.generation() == 0) hora.next_generation();  // the job runs already
  while (state.made < steps) {
    const Voter voter = make(hora, gradients, state, time);
    if (!gradients.are(state.made)) {
      fmt::print(stderr, "the gradients of step {} are wrong\n", state.made);
      return 3;
    }
    fmt::print(record.get(), "{} {} {} {} {}\n", Clock::now().time_since_epoch().count(), state.made,
               voter.generation, voter.rank, voter.size);
    std::fflush(record.get());
    if (state.made == 3) {
      fmt::print("trains {}\n", ::getpid());
      std::fflush(stdout);
    }
  }
  fmt::print("model {:g} on rank {} of {} in generation {}\n", state.model, hora.rank(), hora.size(),
             hora.generation());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  const auto steps = static_cast<std::uint64_t>(std::atoll(argv[1]));
  try {
    auto hora = hora::init();
    try {
      return train(hora, steps, std::atof(argv[2]), std::chrono::microseconds(std::atoll(argv[3])), argv[4]);
    } catch (const hora::Error&) {
      if (!hora.has_left()) throw;
    }
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
