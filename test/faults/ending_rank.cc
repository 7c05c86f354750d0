// SPDX-License-Identifier: Apache-2.0
// A rank for the tests of endings: one of the ranks ends in a way that test/faults/endings.py lists.
//   ending_rank NAME VICTIM WAITED
// WAITED is 1 if the others wait for an operation of the victim's, else 0: then they leave.
#include <hora/c.h>
#include <hora/hora.h>

#include <fmt/format.h>

#include <cstdlib>
#include <new>
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
  return entry;
}

[[noreturn]] void fail() { throw std::runtime_error("disk is full"); }

struct FailsAtItsEnd {
  ~FailsAtItsEnd() {
    []() noexcept { fail(); }();
  }
};

/// The exit code for main to return, if this returns.
int end(const std::string& how) {
  if (how == "cpp-return-3") return 3;
  if (how == "cpp-exit") std::exit(3);
  if (how == "cpp-exit-0") std::exit(0);
  if (how == "cpp-quick-exit") std::quick_exit(3);
  if (how == "cpp-abort") std::abort();
  if (how == "cpp-unwound" || how == "cpp-uncaught") fail();
  if (how == "cpp-thread") std::thread(fail).join();
  if (how == "cpp-destructor") const FailsAtItsEnd last;
  if (how == "cpp-bad-alloc") throw std::bad_alloc();
  return 0;
}

int run(const std::string& how, int victim, bool waited) {
  auto hora = hora::init();
  std::vector<float> data(1 << 20);
  hora.run(sum("begun", data));
  if (hora.rank() == victim) return end(how);
  if (waited) hora.run(sum("waited", data));
  return 0;
}

int run_in_c(int victim, bool waited) {
  if (hora_init() != HORA_OK || hora_barrier("begun", 0) != HORA_OK) return 1;
  if (hora_rank() == victim) std::exit(3);
  if (!waited || hora_barrier("waited", 0) == HORA_OK) return 0;
  fmt::print(stderr, "{}\n", hora_last_error());
  return 1;
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 4) return 2;
  const std::string how = arguments[1];
  const int victim = std::stoi(arguments[2]);
  const bool waited = std::string(arguments[3]) == "1";
  if (how == "c-exit") return run_in_c(victim, waited);
  if (how == "cpp-uncaught" || how == "cpp-bad-alloc") return run(how, victim, waited);
  try {
    return run(how, victim, waited);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
