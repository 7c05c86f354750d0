// SPDX-License-Identifier: Apache-2.0
#include "runner/observe/job_socket.h"

#include "runner/launch/environment.h"
#include "runner/launch/process.h"

#include <hora/status.h>

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <random>

namespace hora::hrun {
namespace {

constexpr std::size_t kIdDigits = 8;
constexpr int kVisitorsOutside = 64;
constexpr const char* kTemporary = "/tmp";
constexpr std::size_t kUnfinishedDigits = 16;
constexpr std::chrono::minutes kUnfinished{1};

/// "<job>.<pid>".
std::optional<RunningJob> job_named(const std::string& folder, std::string_view name) {
  RunningJob job;
  if (name.size() < kIdDigits + 2 || name[kIdDigits] != '.') return std::nullopt;
  const char* end = name.data() + name.size();
  const auto [rest, trouble] = std::from_chars(name.data() + kIdDigits + 1, end, job.pid);
  if (trouble != std::errc() || rest != end || job.pid <= 0) return std::nullopt;
  job.id = name.substr(0, kIdDigits);
  if (job.id.find_first_not_of("0123456789abcdef") != std::string::npos) return std::nullopt;
  job.path = fmt::format("{}/{}", folder, name);
  return job;
}

/// The address of a local socket. It has room for 107 bytes: a longer path is taken from its folder, as one
/// of the files that this process has open.
class LocalAddress {
 public:
  explicit LocalAddress(const std::filesystem::path& path) {
    std::string name = path;
    if (name.size() >= sizeof address_.sun_path) {
      folder_ = Descriptor(::open(path.parent_path().c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
      name = fmt::format("/proc/self/fd/{}/{}", folder_.fd(), path.filename().string());
    }
    address_.sun_family = AF_UNIX;
    name.copy(address_.sun_path, sizeof address_.sun_path - 1);
  }
  [[nodiscard]] const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address_); }
  static constexpr socklen_t kSize = sizeof(sockaddr_un);

 private:
  Descriptor folder_;
  sockaddr_un address_{};
};

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  const std::unique_ptr<DIR, int (*)(DIR*)> open(::opendir(folder.c_str()), ::closedir);
  if (!open) return names;
  while (const dirent* entry = ::readdir(open.get())) names.emplace_back(entry->d_name);
  return names;
}

bool is_old(const std::string& path) {
  struct stat found{};
  if (::lstat(path.c_str(), &found) != 0) return false;
  const auto age = std::chrono::seconds(std::time(nullptr) - found.st_mtime);
  return age > kUnfinished;
}

/// Under such a name a socket does not listen yet. The kernel shows the name to everybody for as long as the
/// socket lives (/proc/net/unix), so it says nothing of the job.
std::string unfinished_name() {
  std::random_device random;
  return fmt::format(".{:08x}{:08x}", random(), random());
}

bool is_unfinished_name(std::string_view name) {
  return name.size() == kUnfinishedDigits + 1 && name.front() == '.' &&
         name.find_first_not_of("0123456789abcdef", 1) == std::string_view::npos;
}

/// Of the session: `hora` in XDG_RUNTIME_DIR, if there is such a directory.
std::optional<std::string> session_folder() {
  struct stat found{};
  const auto runtime = variable("XDG_RUNTIME_DIR");
  if (!runtime || !runtime->starts_with('/') || ::stat(runtime->c_str(), &found) != 0) return std::nullopt;
  return *runtime + "/hora";
}

}  // namespace

std::vector<std::string> job_folders() {
  std::vector<std::string> folders = folders_of_user(kTemporary);
  struct stat found{};
  if (const auto session = session_folder(); session && ::lstat(session->c_str(), &found) == 0)
    folders.insert(folders.begin(), *session);
  return folders;
}

JobSocket::JobSocket(const Folder& folder, const std::string& job) {
  running_jobs(folder.path());  // which removes what dead ones have left
  const std::string unfinished = fmt::format("{}/{}", folder.path(), unfinished_name());
  listener_ = Descriptor(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!listener_) fail("cannot make a socket");
  if (::bind(listener_.fd(), LocalAddress(unfinished).get(), LocalAddress::kSize) != 0)
    fail("cannot make a socket at " + unfinished);
  path_.value = fmt::format("{}/{}.{}", folder.path(), job, ::getpid());
  // Under its name it listens from the beginning: who finds it and is refused knows that its hrun is gone.
  if (::listen(listener_.fd(), kVisitorsOutside) == 0 &&
      std::rename(unfinished.c_str(), path_.value.c_str()) == 0)
    return;
  const int why = errno;
  std::remove(unfinished.c_str());
  path_.value.clear();
  errno = why;
  fail("cannot listen at " + unfinished);
}

JobSocket::~JobSocket() {
  if (!path_.value.empty()) ::unlink(path_.value.c_str());
}

JobSocket open_job_socket(const std::string& job) {
  if (const auto session = session_folder()) {
    try {
      return {Folder::private_at(*session), job};
    } catch (const Error&) {  // then where sessions without such a folder have it
    }
  }
  return {Folder::of_user(kTemporary), job};
}

std::vector<RunningJob> running_jobs(const std::string& folder) {
  struct stat found{};
  if (::lstat(folder.c_str(), &found) != 0) return {};
  static_cast<void>(Folder::private_at(folder));
  std::vector<RunningJob> jobs;
  for (const auto& name : names_in(folder)) {
    const std::string path = fmt::format("{}/{}", folder, name);
    if (is_unfinished_name(name) && is_old(path)) ::unlink(path.c_str());
    auto job = job_named(folder, name);
    if (!job) continue;
    if (connect_to_job(job->path)) {
      jobs.push_back(*std::move(job));
    } else if (errno == ECONNREFUSED) {
      ::unlink(job->path.c_str());
    }
  }
  std::sort(jobs.begin(), jobs.end(),
            [](const RunningJob& one, const RunningJob& other) { return one.id < other.id; });
  return jobs;
}

Descriptor connect_to_job(const std::string& path) {
  Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return {};
  if (::connect(socket.fd(), LocalAddress(path).get(), LocalAddress::kSize) == 0) return socket;
  const int why = errno;
  socket = Descriptor();
  errno = why;
  return {};
}

}  // namespace hora::hrun
