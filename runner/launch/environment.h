// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runner/launch/placement.h"

#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace hora::hrun {

/// HORA_HEARTBEAT_TIMEOUT of an elastic job, where the user has set none: the same on all ranks.
inline constexpr std::chrono::seconds kElasticHeartbeatTimeout{1};

/// hrun's own variable of that name.
[[nodiscard]] std::optional<std::string> variable(const std::string& name);

/// The path of a program, by the rules of execvp (PATH). Throws Error(invalid_argument) with the reason if it
/// cannot be started, also if the interpreter of a script's first line is missing.
[[nodiscard]] std::string find_program(const std::string& name);

/// The facts about one rank that it gets by its environment. A value.
struct RankFacts {
  RankPlacement placement;
  std::string coordinator;  ///< HORA_COORDINATOR
  int coordinator_fd = -1;  ///< rank 0: the socket that listens there; else -1
  int secret_fd = -1;
  int news_fd = -1;                          ///< HORA_NEWS_FD: see core/launcher/news.h; -1: none
  int question_fd = -1;                      ///< HORA_QUESTION_FD: see core/launcher/question.h
  int member_fd = -1;                        ///< HORA_MEMBER_FD of an elastic job: see MemberLine; else -1
  int life_fd = -1;                          ///< HORA_LIFE_FD of an elastic job: see LifeMutex
  elastic::MemberId member = 0;              ///< HORA_MEMBER_ID of an elastic job
  bool late = false;                         ///< HORA_JOINS_LATE of an elastic job: it runs already
  std::string master_address = "127.0.0.1";  ///< for torch.distributed, where the user set none
  int master_port = 0;
  int threads = 1;        ///< for OMP_NUM_THREADS, where the user set none
  bool terminal = false;  ///< whether hrun prints to a terminal, where progress bars are welcome
};

/// Whether hrun sets this variable for each rank by itself, under Hora's name (HORA_RANK) or torchrun's
/// (RANK).
[[nodiscard]] bool is_given_to_ranks(const std::string& name);
/// Whether `--horovod` sets it for each rank, under Horovod's name (HOROVOD_RANK).
[[nodiscard]] bool is_given_for_horovod(const std::string& name);

/// Whether a variable belongs to a machine or to a session on it, and means nothing on another machine. Such
/// are HOME, DISPLAY, those of ssh's agent, and those that say which GPUs or tasks a scheduler gave.
[[nodiscard]] bool is_of_session(const std::string& name);

using Variables = std::vector<std::pair<std::string, std::string>>;

/// The environment that all ranks have in common, as "NAME=VALUE" each: `own`, hrun's, without what an outer
/// job of hrun or torchrun has set there, and with the user's `chosen` variables (-x). A pure function.
[[nodiscard]] std::vector<std::string> job_environment(const std::vector<std::string>& own,
                                                       const Variables& chosen);

/// The part of a job's environment that goes to other machines: without variables of this session
/// (`is_of_session`), except those that the user chose. A pure function.
[[nodiscard]] std::vector<std::string> without_session(const std::vector<std::string>& job,
                                                       const Variables& chosen);
/// Adds the variables of a session on the other machine, `here`, that `job` does not set. A pure function.
[[nodiscard]] std::vector<std::string> with_session(std::vector<std::string> job,
                                                    const std::vector<std::string>& here);

/// The environment of one rank: `job`, with the variables for `facts`. If `horovod_folder` is not empty
/// (--horovod), it comes first in PYTHONPATH, and the rank gets Horovod's variables, too. A pure function.
[[nodiscard]] std::vector<std::string> rank_environment(const std::vector<std::string>& job,
                                                        const std::string& horovod_folder,
                                                        const RankFacts& facts);
/// hrun's own variables.
[[nodiscard]] std::vector<std::string> own_environment();

}  // namespace hora::hrun
