// SPDX-License-Identifier: Apache-2.0
// A rank for job tests: does what its first argument says.
#include <hora/hora.h>

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

namespace {

hora::Entry sum(const std::string& name, std::vector<float>& data) {
  hora::Entry entry;
  entry.name = name;
  entry.shape = {static_cast<std::int64_t>(data.size())};
  entry.input = entry.output = data.data();
  entry.op = hora::ReduceOp::sum;
  return entry;
}

void say(const std::string& line) {
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Reduces tensors of many sizes, over and over.
void reduce(hora::Runtime& hora, int steps) {
  for (int step = 0; step < steps; ++step) {
    for (const std::size_t count : {1, 1000, 100'000, 3'000'000}) {
      std::vector<float> data(count, 1.0F);
      hora.submit(sum(fmt::format("t{}", count), data)).wait();
      if (data.front() != static_cast<float>(hora.size()) || data.back() != data.front()) std::abort();
    }
  }
}

/// One rank kills itself at some time in the middle; the others say what they heard, and how soon.
void die(hora::Runtime& hora, int who, int after_milliseconds) {
  double death = 0;
  std::thread killer;
  if (hora.rank() == who) {
    killer = std::thread([=] {
      std::this_thread::sleep_for(std::chrono::milliseconds(after_milliseconds));
      ::kill(::getpid(), SIGKILL);
    });
  }
  try {
    for (;;) {
      death = seconds();
      reduce(hora, 1);
    }
  } catch (const hora::Error& error) {
    say(fmt::format("{} after {:.3f}", error.what(), seconds() - death));
    std::exit(1);
  }
}

/// CPU seconds and wake-ups of this process while nothing happens.
void idle(hora::Runtime& hora) {
  reduce(hora, 1);
  const auto switches = [] {
    long total = 0;
    for (const char* name : {"voluntary_ctxt_switches"}) {
      const std::string command =
          fmt::format("cat /proc/{}/task/*/status | grep {} | grep -v non | awk '{{s+=$2}} END {{print s}}'",
                      ::getpid(), name);
      FILE* pipe = ::popen(command.c_str(), "r");
      long value = 0;
      if (std::fscanf(pipe, "%ld", &value) == 1) total += value;
      ::pclose(pipe);
    }
    return total;
  };
  const long before = switches();
  const std::clock_t cpu = std::clock();
  std::this_thread::sleep_for(std::chrono::seconds(3));
  say(fmt::format("cpu {:.6f} wakeups {}", static_cast<double>(std::clock() - cpu) / CLOCKS_PER_SEC,
                  switches() - before));
}

}  // namespace

int main(int argc, char** argv) {
  const std::string task = argc > 1 ? argv[1] : "";
  const auto number = [&](int i) { return argc > i ? std::atoi(argv[i]) : 0; };
  try {
    auto hora = hora::init();
    if (task == "reduce") reduce(hora, 10);
    if (task == "die") die(hora, number(2), number(3));
    if (task == "idle") idle(hora);
    if (task == "exit" && hora.rank() == number(2)) std::_Exit(0);
    if (task == "exit") reduce(hora, 1);
    if (hora.rank() == 0) say("done");
  } catch (const hora::Error& error) {
    say(error.what());
    return 1;
  }
}
