// SPDX-License-Identifier: Apache-2.0
#include "runner/launch/environment.h"

#include "core/base/rank_assignment.h"

#include <hora/status.h>

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>

namespace hora::hrun {
namespace {

constexpr std::array<const char*, 17> kOwned{
    "HORA_RANK",        "HORA_SIZE",        "HORA_LOCAL_RANK",     "HORA_LOCAL_SIZE", "HORA_CROSS_RANK",
    "HORA_CROSS_SIZE",  "HORA_COORDINATOR", "HORA_COORDINATOR_FD", "HORA_SECRET_FD",  "HORA_NEWS_FD",
    "HORA_QUESTION_FD", "HORA_MEMBER_FD",   "HORA_MEMBER_ID",      "HORA_LIFE_FD",    "HORA_JOINS_LATE",
    "HORA_TERMINAL",    "HORA_STDERR"};

constexpr std::array<const char*, 6> kHorovods{"HOROVOD_RANK",       "HOROVOD_SIZE",
                                               "HOROVOD_LOCAL_RANK", "HOROVOD_LOCAL_SIZE",
                                               "HOROVOD_CROSS_RANK", "HOROVOD_CROSS_SIZE"};

/// As torchrun names them: torch.distributed and much else find their way by these.
constexpr std::array<const char*, 5> kTorchrun{"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE",
                                               "GROUP_RANK"};

bool is_one_of(const auto& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// Whether a variable tells of an outer torchrun, whose store the ranks of this job must not look for.
bool is_of_outer_torchrun(const std::string& name) {
  constexpr std::array<const char*, 6> kMore{"MASTER_ADDR", "MASTER_PORT", "GROUP_WORLD_SIZE",
                                             "ROLE_NAME",   "ROLE_RANK",   "ROLE_WORLD_SIZE"};
  return is_one_of(kTorchrun, name) || is_one_of(kMore, name) || name.starts_with("TORCHELASTIC_");
}

bool is_directory(const std::string& path) {
  struct stat found{};
  return ::stat(path.c_str(), &found) == 0 && S_ISDIR(found.st_mode);
}

/// Throws if a script cannot be started because of its first line.
std::string with_interpreter(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::array<char, 256> start{};
  file.read(start.data(), start.size() - 1);
  std::istringstream line(std::string(start.data()));
  std::string interpreter;
  if (start[0] != '#' || start[1] != '!' || !(line.ignore(2) >> interpreter)) return path;
  if (::access(interpreter.c_str(), X_OK) == 0) return path;
  throw Error(Code::invalid_argument,
              fmt::format("cannot start '{}': its first line is for '{}', and there is no such program", path,
                          interpreter));
}

std::string name_of(const std::string& setting) { return setting.substr(0, setting.find('=')); }

bool is_chosen(const Variables& chosen, const std::string& name) {
  return std::any_of(chosen.begin(), chosen.end(), [&](const auto& pair) { return pair.first == name; });
}

bool sets(const std::vector<std::string>& settings, const std::string& name) {
  return std::any_of(settings.begin(), settings.end(),
                     [&](const auto& setting) { return name_of(setting) == name; });
}

void tell_as_torchrun_does(std::vector<std::string>& settings, const RankFacts& facts) {
  settings.push_back(fmt::format("RANK={}", facts.placement.rank));
  settings.push_back(fmt::format("WORLD_SIZE={}", facts.placement.size));
  settings.push_back(fmt::format("LOCAL_RANK={}", facts.placement.local_rank));
  settings.push_back(fmt::format("LOCAL_WORLD_SIZE={}", facts.placement.local_size));
  settings.push_back(fmt::format("GROUP_RANK={}", facts.placement.host));
  // Lightning looks for this variable first. If it is missing, Lightning asks Slurm, and starts MPI to ask
  // that.
  if (!sets(settings, kTorchrunJob))
    settings.push_back(fmt::format("{}={}{}", kTorchrunJob, kHrunsJob, facts.coordinator));
  if (!sets(settings, "MASTER_ADDR")) settings.push_back("MASTER_ADDR=" + facts.master_address);
  if (!sets(settings, "MASTER_PORT")) settings.push_back(fmt::format("MASTER_PORT={}", facts.master_port));
}

/// Takes what is there of Horovod's names, and tells the rank with them who it is.
void speak_horovod(std::vector<std::string>& settings, const std::string& folder, const RankFacts& facts) {
  std::string path = folder;
  std::erase_if(settings, [&](const auto& setting) {
    const std::string name = name_of(setting);
    if (name == "PYTHONPATH" && setting != "PYTHONPATH=") path += ":" + setting.substr(name.size() + 1);
    return name == "PYTHONPATH" || is_given_for_horovod(name);
  });
  settings.push_back("PYTHONPATH=" + path);
  const RankPlacement& placement = facts.placement;
  const std::array<int, 6> values{placement.rank,       placement.size,       placement.local_rank,
                                  placement.local_size, placement.cross_rank, placement.cross_size};
  for (std::size_t i = 0; i < kHorovods.size(); ++i)
    settings.push_back(fmt::format("{}={}", kHorovods.at(i), values.at(i)));
  if (facts.member_fd >= 0) settings.emplace_back("HOROVOD_ELASTIC=1");
}

}  // namespace

std::optional<std::string> variable(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  if (value == nullptr) return std::nullopt;
  return value;
}

bool is_given_to_ranks(const std::string& name) {
  return is_one_of(kOwned, name) || is_one_of(kTorchrun, name);
}

bool is_given_for_horovod(const std::string& name) {
  return is_one_of(kHorovods, name) || name == "HOROVOD_ELASTIC";
}

std::string find_program(const std::string& name) {
  const auto check = [](const std::string& path) {
    return ::access(path.c_str(), X_OK) == 0 && !is_directory(path);
  };
  if (name.find('/') != std::string::npos) {
    if (check(name)) return with_interpreter(name);
    const char* why = ::access(name.c_str(), F_OK) != 0 ? "there is no such file"
                      : is_directory(name)              ? "it is a directory"
                                                        : "it is not executable (chmod +x makes it so)";
    throw Error(Code::invalid_argument, fmt::format("cannot start '{}': {}", name, why));
  }
  std::istringstream path(variable("PATH").value_or("/usr/local/bin:/usr/bin:/bin"));
  for (std::string directory; std::getline(path, directory, ':');) {
    std::string candidate = (directory.empty() ? "." : directory) + "/" + name;
    if (check(candidate)) return with_interpreter(candidate);
  }
  const char* hint = ::access(name.c_str(), F_OK) == 0 ? "; it is in this directory: write ./" : "";
  throw Error(Code::invalid_argument, fmt::format("cannot start '{}': no program of this name is in PATH{}{}",
                                                  name, hint, *hint ? name : ""));
}

std::vector<std::string> own_environment() {
  std::vector<std::string> all;
  for (char** setting = environ; *setting != nullptr; ++setting) all.emplace_back(*setting);
  return all;
}

bool is_of_session(const std::string& name) {
  constexpr std::array<const char*, 8> kPrefixes{"SSH_",   "XDG_",  "DBUS_", "TMUX",
                                                 "VSCODE", "SLURM", "PMI",   "OMPI_"};
  constexpr std::array<const char*, 22> kNames{"HOME",
                                               "USER",
                                               "LOGNAME",
                                               "SHELL",
                                               "MAIL",
                                               "HOSTNAME",
                                               "HOST",
                                               "DISPLAY",
                                               "XAUTHORITY",
                                               "WAYLAND_DISPLAY",
                                               "STY",
                                               "WINDOW",
                                               "WINDOWID",
                                               "TTY",
                                               "SHLVL",
                                               "OLDPWD",
                                               "_",
                                               "TERM_SESSION_ID",
                                               "GPG_AGENT_INFO",
                                               "KRB5CCNAME",
                                               "CUDA_VISIBLE_DEVICES",
                                               "ROCR_VISIBLE_DEVICES"};
  return is_one_of(kNames, name) || std::any_of(kPrefixes.begin(), kPrefixes.end(),
                                                [&](const char* prefix) { return name.starts_with(prefix); });
}

std::vector<std::string> job_environment(const std::vector<std::string>& own, const Variables& chosen) {
  std::vector<std::string> result;
  for (const auto& setting : own) {
    const std::string name = name_of(setting);
    if (!is_given_to_ranks(name) && !is_of_outer_torchrun(name) && !is_chosen(chosen, name))
      result.push_back(setting);
  }
  for (const auto& [name, value] : chosen) result.push_back(fmt::format("{}={}", name, value));
  return result;
}

std::vector<std::string> without_session(const std::vector<std::string>& job, const Variables& chosen) {
  std::vector<std::string> result;
  std::copy_if(job.begin(), job.end(), std::back_inserter(result), [&](const auto& setting) {
    return is_chosen(chosen, name_of(setting)) || !is_of_session(name_of(setting));
  });
  return result;
}

std::vector<std::string> with_session(std::vector<std::string> job, const std::vector<std::string>& here) {
  std::vector<std::string> own;
  std::copy_if(here.begin(), here.end(), std::back_inserter(own), [&](const auto& setting) {
    return is_of_session(name_of(setting)) && !sets(job, name_of(setting));
  });
  job.insert(job.end(), own.begin(), own.end());
  return job;
}

std::vector<std::string> rank_environment(const std::vector<std::string>& job,
                                          const std::string& horovod_folder, const RankFacts& facts) {
  const RankPlacement& placement = facts.placement;
  std::vector<std::string> result = job;
  if (!sets(result, "OMP_NUM_THREADS")) result.push_back(fmt::format("OMP_NUM_THREADS={}", facts.threads));
  if (!sets(result, "PYTHONUNBUFFERED"))
    result.emplace_back("PYTHONUNBUFFERED=1");  // lines come as they are printed
  result.push_back(fmt::format("HORA_RANK={}", placement.rank));
  result.push_back(fmt::format("HORA_SIZE={}", placement.size));
  result.push_back(fmt::format("HORA_LOCAL_RANK={}", placement.local_rank));
  result.push_back(fmt::format("HORA_LOCAL_SIZE={}", placement.local_size));
  result.push_back(fmt::format("HORA_CROSS_RANK={}", placement.cross_rank));
  result.push_back(fmt::format("HORA_CROSS_SIZE={}", placement.cross_size));
  result.push_back("HORA_COORDINATOR=" + facts.coordinator);
  if (facts.coordinator_fd >= 0)
    result.push_back(fmt::format("HORA_COORDINATOR_FD={}", facts.coordinator_fd));
  result.push_back(fmt::format("HORA_SECRET_FD={}", facts.secret_fd));
  if (facts.news_fd >= 0) result.push_back(fmt::format("HORA_NEWS_FD={}", facts.news_fd));
  result.push_back(fmt::format("HORA_QUESTION_FD={}", facts.question_fd));
  if (facts.member_fd >= 0) {
    result.push_back(fmt::format("HORA_MEMBER_FD={}", facts.member_fd));
    result.push_back(fmt::format("HORA_MEMBER_ID={}", facts.member));
    result.push_back(fmt::format("HORA_LIFE_FD={}", facts.life_fd));
    if (facts.late) result.emplace_back("HORA_JOINS_LATE=1");
    if (!sets(result, "HORA_HEARTBEAT_TIMEOUT"))
      result.push_back(fmt::format("HORA_HEARTBEAT_TIMEOUT={}", kElasticHeartbeatTimeout.count()));
  }
  if (facts.terminal) result.emplace_back("HORA_TERMINAL=1");
  tell_as_torchrun_does(result, facts);
  if (!horovod_folder.empty()) speak_horovod(result, horovod_folder, facts);
  return result;
}

}  // namespace hora::hrun
