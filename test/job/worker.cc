// SPDX-License-Identifier: Apache-2.0
// A rank for job tests: does what its first argument says.
#include <hora/hora.h>

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <stdexcept>
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

/// Reduces until a file is there.
void reduce_until(hora::Runtime& hora, const std::string& path) {
  for (std::vector<float> stop(1, 0.0F); stop.front() == 0.0F;) {
    reduce(hora, 1);
    stop.front() = hora.rank() == 0 && std::filesystem::exists(path) ? 1.0F : 0.0F;
    hora.submit(sum("stop", stop)).wait();
    if (hora.rank() == 0) say("step");
  }
}

/// One rank sends itself a signal that ends or stops it, at some time in the middle, when all have begun; the
/// others say what they heard, and how soon.
void die(hora::Runtime& hora, int who, int after_milliseconds, int signal) {
  double death = seconds();
  std::thread killer;
  try {
    std::vector<float> begun(1);
    hora.submit(sum("begun", begun)).wait();
    if (hora.rank() == who) {
      killer = std::thread([=] {
        std::this_thread::sleep_for(std::chrono::milliseconds(after_milliseconds));
        ::kill(::getpid(), signal);
      });
    }
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

hora::Message numbers(int peer, int tag, std::vector<float>& data) {
  hora::Message message;
  message.peer = peer;
  message.tag = tag;
  message.shape = {static_cast<std::int64_t>(data.size())};
  message.input = message.output = data.data();
  return message;
}

/// All ranks write to all, also to themselves, while they reduce: messages of many sizes.
void write(hora::Runtime& hora) {
  for (int step = 0; step < 5; ++step) {
    std::vector<std::vector<float>> data;
    data.reserve(1000);
    std::vector<hora::Handle> handles;
    const auto value = [step](int from, int to) { return static_cast<float>(100 * step + 10 * from + to); };
    int tag = 0;
    for (const std::size_t count : {0, 1, 1000, 100'000, 1'000'000}) {
      ++tag;
      for (int peer = 0; peer < hora.size(); ++peer) {
        handles.push_back(hora.receive(numbers(peer, tag, data.emplace_back(count, -1.0F))));
        handles.push_back(hora.send(numbers(peer, tag, data.emplace_back(count, value(hora.rank(), peer)))));
      }
    }
    reduce(hora, 1);
    for (const auto& handle : handles) handle.wait();
    for (std::size_t i = 0; i < data.size(); i += 2) {
      const int peer = static_cast<int>(i / 2) % hora.size();
      if (data[i] != std::vector<float>(data[i].size(), value(peer, hora.rank()))) std::abort();
    }
  }
}

/// A rank kills itself, from which the others wait to receive, or to which they send; they say what they
/// heard, and how soon.
void orphan(hora::Runtime& hora, int who) {
  std::vector<float> small(1);
  std::vector<float> expected(1);
  std::vector<float> large(1'000'000);
  if (hora.rank() == who) {
    for (int peer = 0; peer + 1 < hora.size(); ++peer)
      hora.receive(numbers(hora::kAnySource, 1, small)).wait();  // all have begun
    ::kill(::getpid(), SIGKILL);
  }
  const hora::Handle received = hora.receive(numbers(who, 0, expected));
  const hora::Handle sent = hora.send(numbers(who, 0, large));
  hora.send(numbers(who, 1, small)).wait();
  const double begin = seconds();
  for (const auto& handle : {received, sent}) {
    try {
      handle.wait();
    } catch (const hora::Error& error) {
      say(fmt::format("{} after {:.3f}", error.what(), seconds() - begin));
    }
  }
  std::exit(1);
}

/// One rank forgets a tensor that the others wait for.
void forget(hora::Runtime& hora, int who) {
  reduce(hora, 1);
  std::vector<float> data(12);
  std::optional<hora::Handle> only;
  if (hora.rank() != who) only = hora.submit(sum("only", data));
  say(fmt::format("up {}", ::getpid()));
  if (only) only->wait();
  for (;;) ::pause();
}

/// A rank throws what nobody catches; the others say what they heard.
void fail_uncaught(hora::Runtime& hora, int who) {
  try {
    reduce(hora, 1);
    if (hora.rank() == who) std::thread([] { throw std::runtime_error("disk is full"); }).join();
    reduce(hora, 1);
  } catch (const hora::Error& error) {
    say(error.what());
    std::exit(1);
  }
}

/// A rank takes one step fewer; nobody catches what the others hear of that.
void take_fewer(hora::Runtime& hora, int who) noexcept { reduce(hora, hora.rank() == who ? 2 : 3); }

/// Rank 1 leaves without an operation that rank 0 waits for, which fails from that. Rank 2 says what it heard
/// from rank 0.
void leave_early(hora::Runtime& hora) {
  reduce(hora, 1);
  if (hora.rank() == 0) reduce(hora, 1);
  std::vector<float> data(1);
  if (hora.rank() == 2) hora.receive(numbers(0, 0, data)).wait();
}

}  // namespace

int main(int argc, char** argv) {
  const std::string task = argc > 1 ? argv[1] : "";
  const auto number = [&](int i) { return argc > i ? std::atoi(argv[i]) : 0; };
  try {
    auto hora = hora::init();
    if (task == "reduce") reduce(hora, argc > 2 ? number(2) : 10);
    if (task == "until" && argc > 2) reduce_until(hora, argv[2]);
    if (task == "die") die(hora, number(2), number(3), SIGKILL);
    if (task == "stop") die(hora, number(2), number(3), SIGSTOP);
    if (task == "write") write(hora);
    if (task == "orphan") orphan(hora, number(2));
    if (task == "catch" && hora.rank() == number(2)) throw std::runtime_error("disk is full");
    if (task == "catch") reduce(hora, 1);
    if (task == "throw") fail_uncaught(hora, number(2));
    if (task == "fewer") take_fewer(hora, number(2));
    if (task == "leave") leave_early(hora);
    if (task == "forget") forget(hora, number(2));
    if (task == "idle") idle(hora);
    if (task == "exit" && hora.rank() == number(2)) {
      std::fputs("enough\n", stderr);
      std::_Exit(0);
    }
    if (task == "exit") reduce(hora, 1);
    if (hora.rank() == 0) say("done");
  } catch (const hora::Error& error) {
    say(error.what());
    return 1;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
