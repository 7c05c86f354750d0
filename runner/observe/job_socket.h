// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/folder.h"
#include "core/base/socket_io.h"

#include <string>
#include <vector>

namespace hora::hrun {

// Where `hrun status` finds the jobs of its user that run on this host: each hrun listens on a local socket
// in a folder that only this user can enter.

/// The folders that exist, the one that is used first: `hora` in XDG_RUNTIME_DIR, if that is set, and those
/// of this user in /tmp (core/base/folder.h), as not all sessions of a user need have that variable.
[[nodiscard]] std::vector<std::string> job_folders();

/// A socket that listens as long as this lives, and its name. Moves.
class JobSocket {
 public:
  /// Removes the sockets of hruns that were killed. Throws Error(unavailable).
  JobSocket(const Folder& folder, const std::string& job);
  ~JobSocket();
  JobSocket(JobSocket&&) noexcept = default;
  JobSocket& operator=(JobSocket&&) = delete;

  /// To be taken once.
  [[nodiscard]] Descriptor take() { return std::move(listener_); }
  [[nodiscard]] const std::string& path() const { return path_.value; }

 private:
  /// Empty once it has been moved from.
  struct Path {
    Path() = default;
    Path(Path&& other) noexcept : value(std::exchange(other.value, {})) {}
    Path& operator=(Path&&) = delete;
    std::string value;
  };
  Path path_;
  Descriptor listener_;
};

/// In the session's folder if it can be made there, else in this user's in /tmp. Throws Error(unavailable).
[[nodiscard]] JobSocket open_job_socket(const std::string& job);

/// A job whose hrun listens. A value.
struct RunningJob {
  std::string id;
  int pid = 0;  ///< of hrun
  std::string path;

  bool operator==(const RunningJob&) const = default;
};

/// All jobs in a folder, by id. Sockets that killed hruns have left there are removed. Throws
/// Error(unavailable) unless the folder is this user's alone; there is nothing where there is no such folder.
std::vector<RunningJob> running_jobs(const std::string& folder);

/// Connects to one; nothing, with the reason in errno, if that cannot be.
[[nodiscard]] Descriptor connect_to_job(const std::string& path);

}  // namespace hora::hrun
