// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runner/launch/hosts.h"

#include <optional>
#include <string>
#include <vector>

namespace hora::hrun {

/// A job that Open MPI is to start. A value.
struct MpiJob {
  int ranks = 0;
  std::vector<HostSlots> hosts;        ///< empty: where mpirun itself would, as in an allocation
  bool oversubscribe = false;          ///< more ranks than slots
  bool as_root = false;                ///< root runs this, which mpirun wants to be told
  std::string directory;               ///< of the ranks
  std::string network;                 ///< HORA_NETWORK, for what mpirun sends itself, too
  std::optional<int> ssh_port;         ///< of all hosts
  std::string identity_file;           ///< for ssh; empty: as ssh is configured
  std::vector<std::string> variables;  ///< names of what ranks get of mpirun's environment
  std::vector<std::string> arguments;  ///< further ones for mpirun
  std::vector<std::string> command;    ///< the program and its arguments
};

/// The command line of mpirun for a job. No variable's value stands in it. A pure function.
[[nodiscard]] std::vector<std::string> mpirun_command(const std::string& mpirun, const MpiJob& job);

/// Becomes another program with this environment. Returns only by throwing Error(unavailable).
[[noreturn]] void become(const std::vector<std::string>& command,
                         const std::vector<std::string>& environment);

}  // namespace hora::hrun
