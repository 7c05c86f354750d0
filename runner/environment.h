// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runner/options.h"

#include <optional>
#include <string>
#include <vector>

namespace hora {

/// hrun's own variable of that name.
[[nodiscard]] std::optional<std::string> variable(const std::string& name);

/// The path of a program as execvp would find it. Throws Error(invalid_argument) that says what is wrong with
/// it.
[[nodiscard]] std::string find_program(const std::string& name);

/// What a rank is told by its environment, beside what hrun itself was given. A value.
struct RankFacts {
  int rank = 0;
  int size = 1;
  std::string coordinator;  ///< "127.0.0.1:port"
  int coordinator_fd = -1;  ///< rank 0: the socket that listens there; else -1
  int secret_fd = -1;
  int master_port = 0;    ///< for torch.distributed, where the user set none
  int threads = 1;        ///< for OMP_NUM_THREADS, where the user set none
  bool terminal = false;  ///< whether hrun prints to a terminal, where progress bars are welcome
};

/// Whether a variable is one of those that tell a rank who it is, by Hora's names or by torchrun's.
[[nodiscard]] bool is_given_to_ranks(const std::string& name);
/// Whether a variable is one of those with which --horovod tells the same under Horovod's names.
[[nodiscard]] bool is_given_for_horovod(const std::string& name);

/// "NAME=VALUE", ... : `inherited`, with the variables of -x, and those that tell the rank who it is. What an
/// outer job, of hrun or torchrun, may have said about itself is gone. With --horovod its folder comes first
/// in PYTHONPATH, and the rank is told by Horovod's names, too. A pure function.
[[nodiscard]] std::vector<std::string> rank_environment(const std::vector<std::string>& inherited,
                                                        const Options& options, const RankFacts& facts);
/// hrun's own variables.
[[nodiscard]] std::vector<std::string> own_environment();

}  // namespace hora
