// SPDX-License-Identifier: Apache-2.0
#include <hora/config.h>
#include <hora/status.h>

#include "core/base/ancestry.h"
#include "core/base/full_traces.h"
#include "core/base/knobs.h"
#include "core/base/rank_assignment.h"

#include <fmt/format.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string_view>

namespace hora {
namespace {

/// The variables beside those of `knobs`.
constexpr std::array kOtherVariables{
    "HORA_RANK",       "HORA_SIZE",        "HORA_LOCAL_RANK",     "HORA_LOCAL_SIZE",  "HORA_CROSS_RANK",
    "HORA_CROSS_SIZE", "HORA_COORDINATOR", "HORA_COORDINATOR_FD", "HORA_NEWS_FD",     "HORA_QUESTION_FD",
    "HORA_MEMBER_FD",  "HORA_MEMBER_ID",   "HORA_SECRET_FD",      "HORA_SECRET_FILE", "HORA_FULL_TRACES",
    "HORA_JOINS_LATE", "HORA_LIFE_FD",
    "HORA_TERMINAL",   // from hrun to programs
    "HORA_STDERR",     // likewise
    "HORA_HRUN",       // for hora.run in Python
    "HORA_NO_PICKLE",  // for objects in Python
};

[[noreturn]] void refuse(const char* variable, const std::string& value, const std::string& accepted) {
  throw Error(Code::invalid_argument, fmt::format("{}='{}': {}", variable, value, accepted));
}

std::optional<std::string> text(const char* variable) {
  const char* value = std::getenv(variable);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return value;
}

// --- Horovod's variables ---

using Translation = std::optional<std::string> (*)(const std::string& value);

std::optional<std::string> same(const std::string& value) { return value; }

/// No fusion: tensors that travel together have one byte at most, so that every tensor travels alone.
std::optional<std::string> threshold(const std::string& value) { return value == "0" ? "1" : value; }

/// A level from trace to fatal, in any letter case; Horovod takes a name that it does not know for warning.
std::optional<std::string> level(const std::string& value) {
  std::string name = value;
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
  if (name == "trace") return "debug";
  if (name == "fatal") return "error";
  return name == "debug" || name == "info" || name == "error" ? name : "warning";
}

/// A path, or DYNAMIC, which only permits what is always permitted here.
std::optional<std::string> path(const std::string& value) {
  return value == "DYNAMIC" ? std::nullopt : std::optional(value);
}

/// A flag that turns something on.
std::optional<std::string> flag(const std::string& value) {
  return std::strtol(value.c_str(), nullptr, 10) > 0 ? "1" : "0";
}

/// A flag that turns warnings and errors off.
std::optional<std::string> never(const std::string& value) {
  if (std::strtol(value.c_str(), nullptr, 10) <= 0) return std::nullopt;
  return "0";
}

/// A variable of Horovod's that stands for one of ours where that is not set, and its value in our terms, if
/// it says anything. The first that says something counts.
struct Counterpart {
  const char* theirs;
  const char* ours;
  Translation translate;
};
constexpr std::array kCounterparts{
    Counterpart{"HOROVOD_FUSION_THRESHOLD", "HORA_FUSION_THRESHOLD", threshold},
    Counterpart{"HOROVOD_AUTOTUNE", "HORA_AUTOTUNE", flag},
    Counterpart{"HOROVOD_AUTOTUNE_LOG", "HORA_AUTOTUNE_LOG", same},
    Counterpart{"HOROVOD_AUTOTUNE_STEPS_PER_SAMPLE", "HORA_AUTOTUNE_STEPS", same},
    Counterpart{"HOROVOD_START_TIMEOUT", "HORA_START_TIMEOUT", same},
    Counterpart{"HOROVOD_GLOO_TIMEOUT_SECONDS", "HORA_START_TIMEOUT", same},
    Counterpart{"HOROVOD_STALL_CHECK_DISABLE", "HORA_MISSING_WARNING", never},
    Counterpart{"HOROVOD_STALL_CHECK_DISABLE", "HORA_MISSING_TIMEOUT", never},
    Counterpart{"HOROVOD_STALL_CHECK_TIME_SECONDS", "HORA_MISSING_WARNING", same},
    Counterpart{"HOROVOD_STALL_SHUTDOWN_TIME_SECONDS", "HORA_MISSING_TIMEOUT", same},
    Counterpart{"HOROVOD_TIMELINE", "HORA_TIMELINE", path},
    Counterpart{"HOROVOD_TIMELINE_MARK_CYCLES", "HORA_TIMELINE_MARK_CYCLES", flag},
    Counterpart{"HOROVOD_LOG_LEVEL", "HORA_LOG_LEVEL", level},
};

/// The variables that `hrun --horovod` sets on ranks, for programs that read them, or reads itself.
constexpr std::array kForPrograms{"HOROVOD_RANK",       "HOROVOD_SIZE",           "HOROVOD_LOCAL_RANK",
                                  "HOROVOD_LOCAL_SIZE", "HOROVOD_CROSS_RANK",     "HOROVOD_CROSS_SIZE",
                                  "HOROVOD_ELASTIC",    "HOROVOD_ELASTIC_TIMEOUT"};

/// The variable that sets a knob, ours or Horovod's, and the knob's value in our terms.
struct Setting {
  const char* variable;
  std::string value;
};

std::optional<Setting> setting(const char* variable) {
  if (auto value = text(variable)) return Setting{variable, *std::move(value)};
  for (const auto& counterpart : kCounterparts) {
    if (std::string_view(counterpart.ours) != variable) continue;
    auto value = text(counterpart.theirs);
    if (value) value = counterpart.translate(*value);
    if (value) return Setting{counterpart.theirs, *std::move(value)};
  }
  return std::nullopt;
}

template <std::size_t Count>
bool contains(const std::array<const char*, Count>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// The names of this process's variables that begin so.
std::vector<std::string> variables_with(std::string_view prefix) {
  std::vector<std::string> names;
  for (char** line = environ; *line != nullptr; ++line) {
    const std::string_view whole_line = *line;
    const auto name = whole_line.substr(0, whole_line.find('='));
    if (name.starts_with(prefix)) names.emplace_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

// --- reading ---

std::optional<std::uint64_t> whole(const char* variable, std::uint64_t least, std::uint64_t most) {
  const auto found = setting(variable);
  if (!found) return std::nullopt;
  const std::string& value = found->value;
  std::uint64_t number = 0;
  const char* end = value.data() + value.size();
  const auto [stop, error] = std::from_chars(value.data(), end, number);
  if (error != std::errc() || stop != end || number < least || number > most) {
    refuse(found->variable, value, fmt::format("expected a whole number from {} to {}", least, most));
  }
  return number;
}

void read(const char* variable, int& knob, std::uint64_t least, std::uint64_t most) {
  if (const auto value = whole(variable, least, most)) knob = static_cast<int>(*value);
}

void read_text(const char* variable, std::string& knob) {
  if (auto found = setting(variable)) knob = std::move(found->value);
}

Secret read_secret(int fd) {
  Secret secret{};
  std::size_t got = 0;
  while (got < secret.size()) {
    const auto n = ::read(fd, secret.data() + got, secret.size() - got);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      if (n == 0 && got == 0) {
        throw Error(
            Code::unavailable,
            fmt::format("HORA_SECRET_FD={}: another process of this rank, such as a child that it forked, "
                        "has taken the job's secret, and only one can join the job: call init() in the "
                        "process that trains, and nowhere else",
                        fd));
      }
      const std::string why =
          n < 0 ? std::strerror(errno) : fmt::format("it ended after {} of {} bytes", got, secret.size());
      throw Error(
          Code::invalid_argument,
          fmt::format("HORA_SECRET_FD={}: cannot read the job's secret: {}; start the ranks with hrun", fd,
                      why));
    }
    got += static_cast<std::size_t>(n);
  }
  ::close(fd);
  return secret;
}

/// The pipe can be read once, but a program may initialise many times. A forked child has the secret, too,
/// but not the rank's assignment.
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

// --- the place in the job ---

/// Takes the assignment that a launcher other than hrun gives. Where only rank and size are known, the rest
/// is found out later.
void take_block(Config& config) {
  const auto assignment = text("HORA_RANK") ? std::nullopt : find_rank_assignment(text);
  if (!assignment) {
    if (text("HORA_SIZE").value_or("1") != "1") config.local_size = config.cross_size = 0;
    return;
  }
  config.rank = assignment->rank;
  config.size = assignment->size;
  config.local_rank = assignment->local_rank;
  config.local_size = assignment->local_size;
  config.cross_rank = assignment->cross_rank;
  config.cross_size = assignment->cross_size;
  if (assignment->size == 1) return;
  config.launcher = assignment->launcher;
  config.job = assignment->job.empty() && assignment->launcher == "PMI"
                   ? ancestor_without("PMI_RANK", ::getpid())
                   : assignment->job;
  const bool on_one_host =
      assignment->local_size == assignment->size || means_this_host(assignment->first_host);
  if (on_one_host && !config.job.empty())
    config.meeting_place = meeting_place(config.job, ::geteuid());
  else if (!assignment->first_host.empty())
    config.coordinator = rendezvous_points(assignment->first_host, config.job);
}

void read_assignment(Config& config) {
  take_block(config);
  read("HORA_SIZE", config.size, 1, kMostRanks);
  read("HORA_RANK", config.rank, 0, kMostRanks);
  read("HORA_LOCAL_SIZE", config.local_size, 0, kMostRanks);
  read("HORA_LOCAL_RANK", config.local_rank, 0, kMostRanks);
  read("HORA_CROSS_SIZE", config.cross_size, 0, kMostRanks);
  read("HORA_CROSS_RANK", config.cross_rank, 0, kMostRanks);
  if (text("HORA_COORDINATOR")) config.meeting_place.clear();  // a user who says where rank 0 is has a reason
  read_text("HORA_COORDINATOR", config.coordinator);
  if (const auto fd = whole("HORA_COORDINATOR_FD", 0, 1 << 20)) config.coordinator_fd = static_cast<int>(*fd);
  if (const auto fd = whole("HORA_NEWS_FD", 0, 1 << 20)) config.news_fd = static_cast<int>(*fd);
  if (const auto fd = whole("HORA_QUESTION_FD", 0, 1 << 20)) config.question_fd = static_cast<int>(*fd);
  if (const auto fd = whole("HORA_MEMBER_FD", 0, 1 << 20)) config.member_fd = static_cast<int>(*fd);
  if (const auto fd = whole("HORA_LIFE_FD", 0, 1 << 20)) config.life_fd = static_cast<int>(*fd);
  if (const auto id = whole("HORA_MEMBER_ID", 1, std::numeric_limits<std::int64_t>::max()))
    config.member_id = static_cast<std::uint64_t>(*id);
  if (const auto late = whole("HORA_JOINS_LATE", 0, 1)) config.joins_late = *late == 1;
}

void read_knobs(Config& config) {
  for (const auto& knob : knobs()) {
    if (const auto found = setting(knob.variable.c_str())) knob.parse(config, found->variable, found->value);
  }
}

void check(const Config& config) {
  const auto below = [](const char* variable, int value, const char* bound_name, int bound) {
    if (value >= bound && bound > 0)  // 0: not known yet
      refuse(variable, fmt::to_string(value), fmt::format("must be less than {}={}", bound_name, bound));
  };
  below("HORA_RANK", config.rank, "HORA_SIZE", config.size);
  below("HORA_LOCAL_RANK", config.local_rank, "HORA_LOCAL_SIZE", config.local_size);
  below("HORA_CROSS_RANK", config.cross_rank, "HORA_CROSS_SIZE", config.cross_size);
  if (config.size > 1 && config.launcher.empty() && !text("HORA_SECRET_FD") && config.secret_file.empty()) {
    throw Error(
        Code::invalid_argument,
        fmt::format("HORA_SIZE={} but there is no job secret (HORA_SECRET_FD or HORA_SECRET_FILE): start "
                    "the ranks with hrun, e.g. `hrun -np {} ./train`",
                    config.size, config.size));
  }
}

}  // namespace

bool launcher_reads_stderr() {
  struct stat state{};
  return ::fstat(STDERR_FILENO, &state) == 0 &&
         text("HORA_STDERR") == fmt::format("{}:{}", state.st_dev, state.st_ino);
}

bool full_traces() { return text("HORA_FULL_TRACES") == "1"; }

int size_in_environment() {
  int size = 1;
  read("HORA_SIZE", size, 1, kMostRanks);
  return size;
}

std::vector<std::string> Config::unknown_variables() {
  auto names = variables_with("HORA_");
  std::erase_if(names, [](const auto& name) {
    const auto& all = knobs();
    return contains(kOtherVariables, name) ||
           std::any_of(all.begin(), all.end(), [&](const Knob& knob) { return knob.variable == name; });
  });
  return names;
}

std::vector<std::string> Config::horovod_notes() {
  std::vector<std::string> honoured;
  auto meaningless = variables_with("HOROVOD_");
  std::erase_if(meaningless, [](const auto& name) { return contains(kForPrograms, name); });
  for (const auto& counterpart : kCounterparts) {
    std::erase(meaningless, counterpart.theirs);
    const auto counts = setting(counterpart.ours);
    if (counts && std::string_view(counts->variable) == counterpart.theirs)
      honoured.push_back(fmt::format("{}={} as {}={}", counterpart.theirs, *text(counterpart.theirs),
                                     counterpart.ours, counts->value));
  }
  std::vector<std::string> notes;
  if (!honoured.empty())
    notes.push_back(fmt::format("taken from Horovod's variables: {}", fmt::join(honoured, ", ")));
  if (!meaningless.empty())
    notes.push_back(
        fmt::format("variables of Horovod's that mean nothing here: {}", fmt::join(meaningless, ", ")));
  return notes;
}

std::string Config::nccl_library_of_environment() { return text("HORA_NCCL_LIBRARY").value_or(""); }

Config Config::from_environment() {
  Config config;
  read_assignment(config);
  if (!text("HORA_SECRET_FD")) read_text("HORA_SECRET_FILE", config.secret_file);
  read_knobs(config);
  check(config);
  config.secret = secret_of_this_process();
  return config;
}

Config Config::with_place(int rank, int size, const std::string& coordinator, const Secret& secret) {
  const auto wrong = [](const std::string& why) { throw Error(Code::invalid_argument, why); };
  if (size < 1 || size > kMostRanks) wrong(fmt::format("size={}: a job has 1 to {} ranks", size, kMostRanks));
  if (rank < 0 || rank >= size)
    wrong(fmt::format("rank={}: with size={} ranks are 0 to {}", rank, size, size - 1));
  if (size > 1 && coordinator.empty()) {
    wrong(
        fmt::format("size={} needs a coordinator: \"host:port\" at which rank 0 listens, the same on all "
                    "ranks",
                    size));
  }
  if (size > 1 && secret == Secret{}) {
    wrong(fmt::format(
        "size={} needs a secret: {} random bytes, the same on all ranks, and known to nobody else", size,
        secret.size()));
  }
  Config config;
  config.rank = rank;
  config.size = size;
  config.local_size = config.cross_size = 0;
  config.coordinator = coordinator;
  config.secret = secret;
  read_knobs(config);
  return config;
}

}  // namespace hora
