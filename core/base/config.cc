// SPDX-License-Identifier: Apache-2.0
#include <hora/config.h>
#include <hora/status.h>

#include <fmt/format.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <string_view>

namespace hora {
namespace {

constexpr std::size_t kMostRanks = 1 << 20;
constexpr std::size_t kLeastArena = 16 << 20;

constexpr std::array kVariables{
    "HORA_RANK",          "HORA_SIZE",           "HORA_LOCAL_RANK",
    "HORA_LOCAL_SIZE",    "HORA_CROSS_RANK",     "HORA_CROSS_SIZE",
    "HORA_COORDINATOR",   "HORA_COORDINATOR_FD", "HORA_SECRET_FD",
    "HORA_START_TIMEOUT", "HORA_CPU_OPERATIONS", "HORA_FUSION_THRESHOLD",
    "HORA_ARENA_SIZE",    "HORA_PEER_MEMORY",    "HORA_STALL_WARNING_TIME",
    "HORA_DUMP_DIR",      "HORA_TIMELINE",       "HORA_TIMELINE_MARK_CYCLES",
    "HORA_LOG_LEVEL",     "HORA_TERMINAL",  // the last is from hrun to programs
};

[[noreturn]] void refuse(const char* variable, const std::string& value, const std::string& accepted) {
  throw Error(Code::invalid_argument, fmt::format("{}='{}': {}", variable, value, accepted));
}

std::optional<std::string> text(const char* variable) {
  const char* value = std::getenv(variable);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return value;
}

std::optional<std::uint64_t> whole(const char* variable, std::uint64_t least, std::uint64_t most) {
  const auto value = text(variable);
  if (!value) return std::nullopt;
  std::uint64_t number = 0;
  const char* end = value->data() + value->size();
  const auto [stop, error] = std::from_chars(value->data(), end, number);
  if (error != std::errc() || stop != end || number < least || number > most) {
    refuse(variable, *value, fmt::format("expected a whole number from {} to {}", least, most));
  }
  return number;
}

void read(const char* variable, int& knob, std::uint64_t least, std::uint64_t most) {
  if (const auto value = whole(variable, least, most)) knob = static_cast<int>(*value);
}

void read(const char* variable, std::size_t& knob, std::uint64_t least) {
  if (const auto value = whole(variable, least, std::numeric_limits<std::int64_t>::max())) knob = *value;
}

void read_seconds(const char* variable, std::chrono::milliseconds& knob, double least) {
  const auto value = text(variable);
  if (!value) return;
  char* end = nullptr;
  const double seconds = std::strtod(value->c_str(), &end);
  if (*end != '\0' || !(seconds >= least) || seconds > 1e7) {
    refuse(variable, *value, fmt::format("expected seconds from {} to 10000000", least));
  }
  knob = std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000));
}

void read_choice(const char* variable, std::string& knob, std::initializer_list<const char*> choices) {
  const auto value = text(variable);
  if (!value) return;
  if (std::find(choices.begin(), choices.end(), *value) == choices.end()) {
    refuse(variable, *value, fmt::format("expected one of {}", fmt::join(choices, ", ")));
  }
  knob = *value;
}

void read_text(const char* variable, std::string& knob) {
  if (auto value = text(variable)) knob = *std::move(value);
}

void read_switch(const char* variable, bool& knob) {
  if (const auto value = whole(variable, 0, 1)) knob = *value == 1;
}

Secret read_secret(int fd) {
  Secret secret{};
  std::size_t got = 0;
  while (got < secret.size()) {
    const auto n = ::read(fd, secret.data() + got, secret.size() - got);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      const std::string why =
          n < 0 ? std::strerror(errno) : fmt::format("it ended after {} of {} bytes", got, secret.size());
      throw Error(
          Code::invalid_argument,
          fmt::format(
              "HORA_SECRET_FD={}: cannot read the job's secret: {}. Only one program of each rank can "
              "join the job; start the ranks with hrun.",
              fd, why));
    }
    got += static_cast<std::size_t>(n);
  }
  ::close(fd);
  return secret;
}

/// The pipe can be read once, but a program may initialise many times. A forked child has the secret, too,
/// but not the rank's seat.
const Secret& secret_of_this_process() {
  static const pid_t owner = ::getpid();
  static const Secret secret = [] {
    const auto fd = whole("HORA_SECRET_FD", 0, 1 << 20);
    return fd ? read_secret(static_cast<int>(*fd)) : Secret{};
  }();
  if (owner != ::getpid() && text("HORA_SECRET_FD")) {
    throw Error(Code::unavailable, fmt::format("this process (pid {}) was forked from a rank (pid {}): only "
                                               "the rank itself can join the job",
                                               ::getpid(), owner));
  }
  return secret;
}

void check(const Config& config) {
  const auto below = [](const char* variable, int value, const char* bound_name, int bound) {
    if (value >= bound)
      refuse(variable, fmt::to_string(value), fmt::format("must be less than {}={}", bound_name, bound));
  };
  below("HORA_RANK", config.rank, "HORA_SIZE", config.size);
  below("HORA_LOCAL_RANK", config.local_rank, "HORA_LOCAL_SIZE", config.local_size);
  below("HORA_CROSS_RANK", config.cross_rank, "HORA_CROSS_SIZE", config.cross_size);
  if (config.arena_size != 0 && config.arena_size < kLeastArena)
    refuse("HORA_ARENA_SIZE", fmt::to_string(config.arena_size),
           fmt::format("expected 0 or at least {} bytes", kLeastArena));
  if (config.size > 1 && !text("HORA_SECRET_FD")) {
    throw Error(
        Code::invalid_argument,
        fmt::format("HORA_SIZE={} but there is no job secret (HORA_SECRET_FD): start the ranks with hrun, "
                    "e.g. `hrun -np {} ./train`",
                    config.size, config.size));
  }
}

}  // namespace

std::vector<std::string> Config::unknown_variables() {
  std::vector<std::string> unknown;
  for (char** setting = environ; *setting != nullptr; ++setting) {
    const std::string_view whole = *setting;
    const auto name = whole.substr(0, whole.find('='));
    if (name.starts_with("HORA_") &&
        std::find(kVariables.begin(), kVariables.end(), name) == kVariables.end())
      unknown.emplace_back(name);
  }
  return unknown;
}

Config Config::from_environment() {
  Config config;
  read("HORA_SIZE", config.size, 1, kMostRanks);
  read("HORA_RANK", config.rank, 0, kMostRanks);
  read("HORA_LOCAL_SIZE", config.local_size, 1, kMostRanks);
  read("HORA_LOCAL_RANK", config.local_rank, 0, kMostRanks);
  read("HORA_CROSS_SIZE", config.cross_size, 1, kMostRanks);
  read("HORA_CROSS_RANK", config.cross_rank, 0, kMostRanks);
  read_text("HORA_COORDINATOR", config.coordinator);
  if (const auto fd = whole("HORA_COORDINATOR_FD", 0, 1 << 20)) config.coordinator_fd = static_cast<int>(*fd);
  read_seconds("HORA_START_TIMEOUT", config.start_timeout, 0.001);
  read_choice("HORA_CPU_OPERATIONS", config.cpu_operations, {"auto", "shm", "tcp"});
  read("HORA_FUSION_THRESHOLD", config.fusion_threshold, 1);
  read("HORA_ARENA_SIZE", config.arena_size, 0);
  read_switch("HORA_PEER_MEMORY", config.peer_memory);
  read_seconds("HORA_STALL_WARNING_TIME", config.stall_warning_time, 0);
  read_text("HORA_TIMELINE", config.timeline);
  read_switch("HORA_TIMELINE_MARK_CYCLES", config.timeline_mark_cycles);
  read_text("HORA_DUMP_DIR", config.dump_directory);
  read_choice("HORA_LOG_LEVEL", config.log_level, {"error", "warning", "info", "debug"});
  check(config);
  config.secret = secret_of_this_process();
  return config;
}

}  // namespace hora
