// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runner/launch/placement.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace hora::hrun {

/// hrun's own variable of that name.
[[nodiscard]] std::optional<std::string> variable(const std::string& name);

/// The path of a program as execvp would find it. Throws Error(invalid_argument) that says what is wrong with
/// it.
[[nodiscard]] std::string find_program(const std::string& name);

/// The facts that a rank is told by its environment, beside those that all ranks are given. A value.
struct RankFacts {
  RankPlace seat;
  std::string coordinator;  ///< HORA_COORDINATOR
  int coordinator_fd = -1;  ///< rank 0: the socket that listens there; else -1
  int secret_fd = -1;
  int news_fd = -1;                          ///< HORA_NEWS_FD: see core/launcher/news.h
  int question_fd = -1;                      ///< HORA_QUESTION_FD: see core/launcher/question.h
  std::string master_address = "127.0.0.1";  ///< for torch.distributed, where the user set none
  int master_port = 0;
  int threads = 1;        ///< for OMP_NUM_THREADS, where the user set none
  bool terminal = false;  ///< whether hrun prints to a terminal, where progress bars are welcome
};

/// Whether a variable is one of those that tell a rank who it is, by Hora's names or by torchrun's.
[[nodiscard]] bool is_given_to_ranks(const std::string& name);
/// Whether a variable is one of those with which --horovod tells the same under Horovod's names.
[[nodiscard]] bool is_given_for_horovod(const std::string& name);

/// Whether a variable tells of the machine, or of the session there, in which it was set: where a terminal, a
/// display or an agent for keys is, whose home this is, which devices or tasks a scheduler gave. On another
/// machine its own counts.
[[nodiscard]] bool is_of_session(const std::string& name);

using Variables = std::vector<std::pair<std::string, std::string>>;

/// "NAME=VALUE", ... : the variables that all ranks are given: `own`, with the user's `chosen` ones (-x).
/// Variables that an outer job, of hrun or torchrun, may have set about itself are gone. A pure function.
[[nodiscard]] std::vector<std::string> job_environment(const std::vector<std::string>& own,
                                                       const Variables& chosen);

/// The same on another machine: without what tells of the machine and the session that it comes from, unless
/// the user chose it, and with what tells of this one, as `here` has it. A pure function.
[[nodiscard]] std::vector<std::string> without_session(const std::vector<std::string>& job,
                                                       const Variables& chosen);
[[nodiscard]] std::vector<std::string> with_session(std::vector<std::string> job,
                                                    const std::vector<std::string>& here);

/// The variables of one rank: `job`, and those that tell it which rank it is. With `horovod_folder`
/// (--horovod) that comes first in PYTHONPATH, and the rank is told by Horovod's names, too. A pure function.
[[nodiscard]] std::vector<std::string> rank_environment(const std::vector<std::string>& job,
                                                        const std::string& horovod_folder,
                                                        const RankFacts& facts);
/// hrun's own variables.
[[nodiscard]] std::vector<std::string> own_environment();

}  // namespace hora::hrun
