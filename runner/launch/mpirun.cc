// SPDX-License-Identifier: Apache-2.0
#include "runner/launch/mpirun.h"

#include "runner/launch/process.h"

#include <hora/status.h>

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <iterator>

namespace hora::hrun {
namespace {

std::string host_list(const std::vector<HostSlots>& hosts) {
  std::string list;
  for (const auto& host : hosts) list += (list.empty() ? "" : ",") + to_text(host);
  return list;
}

/// The value of plm_rsh_args; empty: none.
std::string ssh_arguments(const MpiJob& job) {
  std::string text;
  if (job.ssh_port) text += fmt::format("-p {} ", *job.ssh_port);
  if (!job.identity_file.empty()) text += fmt::format("-i {} ", job.identity_file);
  if (!text.empty()) text.pop_back();
  return text;
}

}  // namespace

std::vector<std::string> mpirun_command(const std::string& mpirun, const MpiJob& job) {
  std::vector<std::string> words{mpirun, "-np", fmt::to_string(job.ranks)};
  const auto add = [&](std::initializer_list<std::string> more) { words.insert(words.end(), more); };
  if (!job.hosts.empty()) add({"-H", host_list(job.hosts)});
  if (job.oversubscribe) add({"--oversubscribe"});
  if (job.as_root) add({"--allow-run-as-root"});
  add({"--bind-to", "none", "--map-by", "slot"});  // ranks fill host after host, as hrun places them itself
  add({"--wdir", job.directory});
  if (!job.network.empty())
    add({"--mca", "btl_tcp_if_include", job.network, "--mca", "oob_tcp_if_include", job.network});
  if (const auto ssh = ssh_arguments(job); !ssh.empty()) add({"--mca", "plm_rsh_args", ssh});
  for (const auto& name : job.variables) add({"-x", name});
  words.insert(words.end(), job.arguments.begin(), job.arguments.end());
  words.insert(words.end(), job.command.begin(), job.command.end());
  return words;
}

void become(const std::vector<std::string>& command, const std::vector<std::string>& environment) {
  ::execve(command.front().c_str(), pointers(command).data(), pointers(environment).data());
  throw Error(Code::unavailable, fmt::format("cannot start {}: {}", command.front(), std::strerror(errno)));
}

}  // namespace hora::hrun
