// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runner/elastic/discovery.h"
#include "runner/elastic/generations.h"
#include "runner/launch/binding.h"
#include "runner/launch/hosts.h"
#include "runner/launch/placement.h"
#include "runner/launch/remote_ranks.h"
#include "runner/observe/metrics_address.h"

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace hora::hrun {

/// The settings of the command line of hrun. A value.
struct Options {
  int ranks = 0;  ///< that are started: -np, else all slots; of an elastic job up to --max-np
  std::optional<GenerationPolicy> elastic;  ///< --min-np or --max-np: its ranks may change
  std::vector<HostSlots> hosts;             ///< -H or --hostfile, else this machine
  std::optional<DiscoveryPlan> discovery;   ///< --host-discovery-script, which has told `hosts` for the start
  std::vector<HostShare> shares;            ///< which ranks are on which host
  std::vector<RemoteHost> remote_hosts;     ///< to those hosts that are not this machine
  std::function<RemoteHost(const std::string&)> way_to;          ///< makes one of these
  std::vector<std::pair<std::string, std::string>> environment;  ///< -x
  std::string output_directory;                                  ///< --output-filename
  std::string horovod_folder;                                    ///< --horovod: see runner/horovod/horovod.h
  BindTo bind_to = BindTo::none;                                 ///< --bind-to
  bool report_bindings = false;                                  ///< --report-bindings
  std::vector<std::string> notes;  ///< what the user should know of the flags, each a sentence
  std::string network;             ///< --network, else HORA_NETWORK
  std::chrono::milliseconds start_timeout{30'000};  ///< to get all hosts ready
  std::optional<MetricsAddress> metrics;            ///< --metrics
  std::optional<int> reader = 0;                    ///< --stdin: the rank that reads hrun's input; kEveryRank
  bool prefix = true;
  bool verbose = false;
  std::chrono::milliseconds grace{5000};
  std::optional<std::chrono::milliseconds> timeout;
  std::vector<std::string> command;    ///< the program and its arguments
  std::vector<std::string> hand_over;  ///< --launcher mpi: the command that starts the ranks instead of hrun
  std::vector<std::string> hand_over_environment;  ///< of that command: "NAME=VALUE"

  /// The slots of a host of `hosts`; 0: it is none.
  [[nodiscard]] int slots_of(const std::string& host) const;
  /// The way to a host; nothing: it is this machine.
  [[nodiscard]] std::optional<RemoteHost> remote_host(const std::string& host) const;
};

/// The answer that hrun gives instead of starting ranks: print this, and exit so.
struct Answer {
  std::string text;
  int exit_code = 0;
};

/// Either is set. `Answer` with exit code 2 for everything that is wrong: then nothing has been started.
struct Parsed {
  std::optional<Options> options;
  std::optional<Answer> answer;
};

[[nodiscard]] Parsed parse_options(const std::vector<std::string>& arguments);

}  // namespace hora::hrun
