// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/event_fd.h"
#include "core/elastic/leader.h"
#include "core/elastic/message.h"

#include <hora/config.h>

#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace hora {

/// The part of hrun in an elastic job of processes that a test makes, without hrun's other work: a Leader on
/// a thread, and a line to each process. The processes have the identities 1, 2, ..., all on one host.
class ElasticLauncher {
 public:
  explicit ElasticLauncher(const elastic::ElasticPolicy& policy);
  ~ElasticLauncher();
  ElasticLauncher(const ElasticLauncher&) = delete;
  ElasticLauncher& operator=(const ElasticLauncher&) = delete;

  /// The settings of the process with this number, from 0 on.
  [[nodiscard]] Config settings(int process) const;
  /// The process is asked to go at the next step that counts.
  void let_go(int process);
  /// The process has ended. Its line is read to its end first.
  void die(int process, const std::string& how);
  [[nodiscard]] elastic::GenerationRecord record() const;
  /// The processes that the leader wanted killed, in order, by number.
  [[nodiscard]] std::vector<int> killed() const;

 private:
  struct Line {
    Descriptor ours;
    Descriptor theirs;
    std::uint16_t port = 0;
  };
  void run();
  void read(std::size_t process);
  void carry_out(const elastic::Leader::Actions& actions);

  std::vector<Line> lines_;
  const EventFd wake_up_;
  mutable std::mutex mutex_;
  elastic::Leader leader_;
  const Secret job_secret_;
  std::string lost_;
  elastic::MemberId lost_id_ = 0;
  std::vector<int> killed_;
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace hora
