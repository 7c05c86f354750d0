// SPDX-License-Identifier: Apache-2.0
#include "runner/job_socket.h"

#include "runner/environment.h"
#include "runner/process.h"

#include <hora/status.h>

#include <dirent.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>

namespace hora {
namespace {

constexpr std::size_t kIdDigits = 8;
constexpr int kVisitorsOutside = 64;
constexpr int kTries = 10;  // another hrun that ends may remove the folder in between
constexpr std::chrono::minutes kUnfinished{1};

/// "<job>.<pid>"; what begins with a dot does not listen yet.
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

std::optional<sockaddr_un> local_address_of(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) return std::nullopt;
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  return address;
}

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  const std::unique_ptr<DIR, int (*)(DIR*)> open(::opendir(folder.c_str()), ::closedir);
  if (!open) return names;
  while (const dirent* entry = ::readdir(open.get())) names.emplace_back(entry->d_name);
  return names;
}

bool is_old(const std::string& path) {
  struct stat found {};
  if (::lstat(path.c_str(), &found) != 0) return false;
  const auto age = std::chrono::seconds(std::time(nullptr) - found.st_mtime);
  return age > kUnfinished;
}

void make_job_folder(const std::string& folder) {
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) fail("cannot make " + folder);
  check_job_folder(folder);
}

}  // namespace

std::vector<std::string> job_folders() {
  std::vector<std::string> folders;
  struct stat found {};
  if (const auto runtime = variable("XDG_RUNTIME_DIR");
      runtime && runtime->starts_with('/') && ::stat(runtime->c_str(), &found) == 0)
    folders.push_back(*runtime + "/hora");
  folders.push_back(fmt::format("/tmp/hora-{}", ::geteuid()));
  return folders;
}

void check_job_folder(const std::string& folder) {
  struct stat found {};
  if (::lstat(folder.c_str(), &found) != 0) fail("cannot use " + folder);
  const auto refuse = [&](const std::string& why) {
    throw Error(Code::unavailable, fmt::format("{} {}: remove it", folder, why));
  };
  if (!S_ISDIR(found.st_mode)) refuse("is no folder");
  if (found.st_uid != ::geteuid()) refuse(fmt::format("belongs to user {}", found.st_uid));
  if ((found.st_mode & 0077) != 0)
    refuse(fmt::format("is open to others (mode {:04o})", found.st_mode & 07777));
}

JobSocket::JobSocket(const std::string& folder, const std::string& job) : folder_(folder) {
  const std::string name = fmt::format("{}.{}", job, ::getpid());
  const std::string unfinished = fmt::format("{}/.{}", folder, name);
  const auto address = local_address_of(unfinished);
  if (!address)
    throw Error(Code::unavailable, fmt::format("the path {} is too long for a socket", unfinished));
  listener_ = Descriptor(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!listener_) fail("cannot make a socket");
  const auto bind = [&] {
    make_job_folder(folder);
    return ::bind(listener_.fd(), reinterpret_cast<const sockaddr*>(&*address), sizeof *address) == 0;
  };
  int tries = 1;
  bool bound = bind();
  for (; !bound && errno == ENOENT && tries < kTries; ++tries) bound = bind();
  if (!bound) fail("cannot make a socket at " + unfinished);
  path_.value = fmt::format("{}/{}", folder, name);
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
  if (path_.value.empty()) return;
  ::unlink(path_.value.c_str());
  ::rmdir(folder_.c_str());  // if it was the last one
}

JobSocket open_job_socket(const std::string& job) {
  const auto folders = job_folders();
  for (std::size_t i = 0; i + 1 < folders.size(); ++i) {
    try {
      return {folders[i], job};
    } catch (const Error&) {
      continue;
    }
  }
  return {folders.back(), job};
}

std::vector<RunningJob> running_jobs(const std::string& folder) {
  struct stat found {};
  if (::lstat(folder.c_str(), &found) != 0) return {};
  check_job_folder(folder);
  std::vector<RunningJob> jobs;
  for (const auto& name : names_in(folder)) {
    const bool unfinished = name.starts_with('.');
    auto job = job_named(folder, unfinished ? std::string_view(name).substr(1) : std::string_view(name));
    if (!job) continue;
    if (unfinished) {
      const std::string path = fmt::format("{}/{}", folder, name);
      if (is_old(path)) ::unlink(path.c_str());
    } else if (connect_to_job(job->path)) {
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
  const auto address = local_address_of(path);
  Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!address || !socket) return {};
  if (::connect(socket.fd(), reinterpret_cast<const sockaddr*>(&*address), sizeof *address) == 0)
    return socket;
  const int why = errno;
  socket = Descriptor();
  errno = why;
  return {};
}

}  // namespace hora
