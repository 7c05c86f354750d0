// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace hora::hrun {

/// How other machines are reached. A value.
struct SshOptions {
  std::optional<int> port;    ///< --ssh-port
  std::string identity_file;  ///< --ssh-identity-file
  int connect_timeout = 10;   ///< seconds
};

/// The program and arguments that start an agent on a host: `hrun` there, by the same path as here, else from
/// PATH. They say nothing about the job. The user's configuration of ssh for the host counts; no question is
/// asked. `ssh` and `hrun` are paths here. A pure function.
[[nodiscard]] std::vector<std::string> ssh_command(const std::string& ssh, const std::string& host,
                                                   const SshOptions& options, const std::string& hrun);

/// Why there is no agent, from what ssh wrote to stderr and how it ended: its own words, and the remedy where
/// one is known. A pure function.
[[nodiscard]] std::string explain_ssh(const std::string& words, int exit_code, const std::string& host,
                                      const std::string& hrun);

}  // namespace hora::hrun
