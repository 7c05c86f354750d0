// SPDX-License-Identifier: Apache-2.0
#include "test/faults/fault.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <sstream>
#include <stdexcept>

namespace hora {
namespace {

void run_out_of_memory() {
  std::ifstream file("/proc/self/statm");
  rlim_t pages = 0;
  file >> pages;
  const rlimit limit{pages * static_cast<rlim_t>(::sysconf(_SC_PAGESIZE)), RLIM_INFINITY};
  ::setrlimit(RLIMIT_AS, &limit);
  std::vector<std::unique_ptr<std::vector<char>>> hoard;
  while (true) hoard.push_back(std::make_unique<std::vector<char>>(1 << 20, 'x'));
}

/// Writes more than there is room for where standard output is kept.
void write_much() {
  for (int line = 0; line < 4096; ++line) std::printf("%04d %s\n", line, std::string(120, '.').c_str());
  std::fflush(stdout);
}

}  // namespace

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

Part part_of(char** arguments) {
  Part part{arguments[2], arguments[3], arguments[4], {}, 0};
  std::istringstream victims(arguments[5]);
  for (std::string one; std::getline(victims, one, ',');) part.victims.insert(std::stoi(one));
  part.elements = std::stoul(arguments[6]) / sizeof(float);
  const bool by_mpi = variable("HORA_RANK").empty();
  part.rank = std::stoi(variable(by_mpi ? "OMPI_COMM_WORLD_RANK" : "HORA_RANK"));
  part.size = std::stoi(variable(by_mpi ? "OMPI_COMM_WORLD_SIZE" : "HORA_SIZE"));
  return part;
}

std::map<int, std::string> descriptors() {
  std::map<int, std::string> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const auto target = std::filesystem::read_symlink(entry.path(), gone);
    const bool own = gone || target.string().starts_with("/proc/");
    if (!own) found[std::stoi(entry.path().filename())] = target;
  }
  return found;
}

namespace {

/// The descriptors that a rank has at its beginning, other than the standard ones and those that a launcher
/// has named.
std::vector<std::string> strays() {
  std::set<std::string> named{"0", "1", "2"};
  for (const char* name : {"HORA_SECRET_FD", "HORA_NEWS_FD", "HORA_QUESTION_FD", "HORA_COORDINATOR_FD",
                           "HORA_MEMBER_FD", "HORA_LIFE_FD"})
    named.insert(variable(name));
  std::vector<std::string> found;
  for (const auto& [number, target] : descriptors()) {
    if (!named.contains(std::to_string(number))) found.push_back(fmt::format("{}: {}", number, target));
  }
  return found;
}

std::vector<std::string> new_since(const std::map<int, std::string>& before) {
  std::vector<std::string> found;
  for (const auto& [number, target] : descriptors()) {
    const auto known = before.find(number);  // which may have been closed, and its number be another's now
    if (known == before.end() || known->second != target)
      found.push_back(fmt::format("{}: {}", number, target));
  }
  return found;
}

}  // namespace

int play(char** arguments, const Part& part, const std::function<void(Stage& stage)>& run) {
  const auto found = strays();
  Stage stage(arguments[1], part.rank);
  stage.say("born", {{"pid", ::getpid()}, {"descriptors", found}});
  const auto before = descriptors();
  int code = 0;
  try {
    run(stage);
  } catch (const Error& error) {
    stage.say("told", {{"what", error.what()}});
    fmt::print(stderr, "{}\n", error.what());
    code = 1;
  }
  stage.say("out", {{"code", code}, {"left", new_since(before)}});
  return code;
}

bool main_thread_sleeps() {
  std::ifstream file(fmt::format("/proc/self/task/{}/stat", ::getpid()));
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  return text.at(text.rfind(')') + 2) == 'S';
}

void befall(Stage& stage, const Part& part, const std::string& where) {
  static const rlimit no_core{0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
  stage.say("fault", {{"where", where}});
  if (part.fault == "kill") ::kill(::getpid(), SIGKILL);
  if (part.fault == "stop") ::kill(::getpid(), SIGSTOP);
  if (part.fault == "segfault") *static_cast<volatile int*>(nullptr) = 1;  // NOLINT: that is the point
  if (part.fault == "exception") throw std::runtime_error("the loss is not a number");
  if (part.fault == "exit") std::exit(0);
  if (part.fault == "memory") run_out_of_memory();
  if (part.fault == "disk") write_much();
  if (part.fault == "cut" || part.fault == "slow") stage.await("done");
}

}  // namespace hora
