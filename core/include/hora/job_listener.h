// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <hora/config.h>

#include <memory>
#include <string>

namespace hora {

/// The socket at which rank 0 of a job waits for the other ranks, where no launcher makes one. Rank 0 makes
/// this, and the program brings `coordinator` and `secret` to the other ranks: all of them pass both to
/// Config::with_place. All who know the secret can join the job, so it travels in a way that others cannot
/// read. The listener lives until rank 0 has joined, and may serve several jobs, one after the other. Moves.
class JobListener {
 public:
  /// Listens at a free port. `network`: as Config::network. Throws Error(invalid_argument) if `network`
  /// selects no address of this host, and Error(unavailable) if nothing can listen.
  explicit JobListener(const std::string& network = {});
  JobListener(JobListener&&) noexcept;
  JobListener& operator=(JobListener&&) noexcept;
  ~JobListener();

  /// "10.0.0.1:40123,192.168.0.1:40123": as Config::coordinator.
  [[nodiscard]] const std::string& coordinator() const;
  /// 32 random bytes.
  [[nodiscard]] const Secret& secret() const;
  /// As Config::coordinator_fd, of rank 0.
  [[nodiscard]] int fd() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace hora
