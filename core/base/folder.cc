// SPDX-License-Identifier: Apache-2.0
#include "core/base/folder.h"

#include <hora/status.h>

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <tuple>

namespace hora {
namespace {

constexpr mode_t kOwnerAlone = 0700;
constexpr mode_t kOthers = 0077;
constexpr mode_t kAsTheUmaskSays = 0666;
constexpr int kAnew = O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC;
constexpr int kMostLinks = 8;

[[noreturn]] void refuse_path(const std::string& path, const std::string& why) {
  throw Error(Code::unavailable, fmt::format("cannot write {}: {}", path, why));
}

[[noreturn]] void refuse_path(const std::string& path) { refuse_path(path, std::strerror(errno)); }

/// A link behind which a slash stands is followed.
std::string without_slashes(std::string path) {
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  return path;
}

/// Where a link leads that belongs to this user or root. It is read by its descriptor, so the text is that of
/// the link whose owner was looked at.
std::optional<std::string> target_of_own_link(int directory, const std::string& path) {
  const Descriptor link(::openat(directory, path.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
  struct stat found{};
  std::string target(PATH_MAX, '\0');
  const auto size = link ? ::readlinkat(link.fd(), "", target.data(), target.size()) : -1;
  if (size <= 0 || ::fstat(link.fd(), &found) != 0) return std::nullopt;
  if (found.st_uid != ::geteuid() && found.st_uid != 0) return std::nullopt;
  target.resize(static_cast<std::size_t>(size));
  const auto slash = path.rfind('/');
  return target.starts_with('/') || slash == std::string::npos ? target : path.substr(0, slash + 1) + target;
}

Descriptor open_or_make(int directory, const std::string& name, const std::string& path) {
  if (::mkdirat(directory, name.c_str(), kOwnerAlone) != 0 && errno != EEXIST) refuse_path(path);
  Descriptor folder(::openat(directory, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (folder) return folder;
  const int why = errno;
  struct stat found{};
  const bool link =
      ::fstatat(directory, name.c_str(), &found, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(found.st_mode);
  if (link) refuse_path(path, "it is a link of another user's: name the folder itself");
  refuse_path(path, std::strerror(why));
}

/// The reason why `found` is no private folder of this user; empty if it is one.
std::string not_private(const struct stat& found) {
  if (!S_ISDIR(found.st_mode)) return "it is no folder";
  if (found.st_uid != ::geteuid()) return fmt::format("it belongs to user {}", found.st_uid);
  if ((found.st_mode & kOthers) != 0)
    return fmt::format("it is open to others (mode {:04o})", found.st_mode & 07777);
  return {};
}

void check_private(const Descriptor& folder, const std::string& path) {
  struct stat found{};
  if (::fstat(folder.fd(), &found) != 0) refuse_path(path);
  if (const auto why = not_private(found); !why.empty()) refuse_path(path, why + ": remove it");
}

std::vector<std::string> entries_of(int folder) {
  std::vector<std::string> names;
  Descriptor own(::openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const std::unique_ptr<DIR, int (*)(DIR*)> open(own ? ::fdopendir(own.fd()) : nullptr, ::closedir);
  if (!open) return names;
  own.release();
  while (const dirent* entry = ::readdir(open.get())) {
    const std::string_view name(entry->d_name);
    if (name != "." && name != "..") names.emplace_back(name);
  }
  return names;
}

void write_whole(const Descriptor& file, std::string_view bytes, const std::string& path) {
  while (!bytes.empty()) {
    const auto written = ::write(file.fd(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) refuse_path(path);
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
}

std::ofstream stream_to(const Descriptor& file) {
  std::ofstream stream;
  if (file) {
    stream.open(fmt::format("/proc/self/fd/{}", file.fd()), std::ios::binary);
  } else {
    stream.setstate(std::ios::failbit);
  }
  return stream;
}

Descriptor open_anew(int directory, const std::string& path, int links) {
  const bool of_kernel = path.starts_with("/proc/");  // the text of its links is no path
  Descriptor file(
      ::openat(directory, path.c_str(), of_kernel ? kAnew & ~O_NOFOLLOW : kAnew, kAsTheUmaskSays));
  if (file || errno != ELOOP || links == 0) return file;
  const auto target = target_of_own_link(directory, path);
  errno = EACCES;
  return target ? open_anew(directory, *target, links - 1) : Descriptor();
}

std::string user_folder_name() { return fmt::format("hora-{}", ::geteuid()); }

/// Folders in it that are this user's alone, and whose names begin like this.
std::vector<std::string> private_names(const std::string& directory, const std::string& beginning) {
  std::vector<std::string> names;
  const Descriptor open(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!open) return names;
  for (auto& name : entries_of(open.fd())) {
    struct stat found{};
    if (name.starts_with(beginning) && ::fstatat(open.fd(), name.c_str(), &found, AT_SYMLINK_NOFOLLOW) == 0 &&
        not_private(found).empty())
      names.push_back(std::move(name));
  }
  std::sort(names.begin(), names.end());
  return names;
}

/// The folder for the case that another user has the usual name. Nobody can guess the end of this one's name.
std::string other_user_folder(const std::string& directory) {
  const std::string beginning = user_folder_name() + "-";
  const auto known = private_names(directory, beginning);
  if (!known.empty()) return fmt::format("{}/{}", directory, known.front());
  std::string made = fmt::format("{}/{}XXXXXX", directory, beginning);
  if (::mkdtemp(made.data()) == nullptr) refuse_path(made);
  const auto now = private_names(directory, beginning);  // another process may have made one, too
  std::string first = now.empty() ? made : fmt::format("{}/{}", directory, now.front());
  if (first != made) ::rmdir(made.c_str());
  return first;
}

}  // namespace

Folder Folder::named(const std::string& path) {
  std::string plain = without_slashes(path);
  for (int links = 0; links < kMostLinks; ++links) {
    const auto target = target_of_own_link(AT_FDCWD, plain);
    if (!target) break;
    plain = without_slashes(*target);
  }
  return {open_or_make(AT_FDCWD, plain, plain), plain};
}

Folder Folder::private_at(const std::string& path) {
  Folder folder = named(path);
  check_private(folder.folder_, folder.path_);
  return folder;
}

Folder Folder::of_user(const std::string& directory) {
  try {
    return private_at(fmt::format("{}/{}", directory, user_folder_name()));
  } catch (const Error&) {
    return private_at(other_user_folder(directory));
  }
}

Folder Folder::inner(const std::string& name) const {
  std::string path = fmt::format("{}/{}", path_, name);
  if (name.find('/') != std::string::npos) refuse_path(path, "its name has a slash");
  Descriptor folder = open_or_make(folder_.fd(), name, path);
  check_private(folder, path);
  return {std::move(folder), std::move(path)};
}

void Folder::write(const std::string& name, std::string_view bytes, mode_t mode) const {
  const std::string path = fmt::format("{}/{}", path_, name);
  std::random_device random;
  const std::string unfinished = fmt::format(".{}.{:08x}{:08x}", name, random(), random());
  const Descriptor file(
      ::openat(folder_.fd(), unfinished.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode));
  if (!file) refuse_path(path);
  try {
    write_whole(file, bytes, path);
    if (::renameat(folder_.fd(), unfinished.c_str(), folder_.fd(), name.c_str()) != 0) refuse_path(path);
  } catch (const Error&) {
    ::unlinkat(folder_.fd(), unfinished.c_str(), 0);
    throw;
  }
}

std::ofstream Folder::create(const std::string& name) const {
  return stream_to(open_anew(folder_.fd(), name, kMostLinks));
}

void Folder::keep_newest(std::size_t folders) const {
  using Age = std::tuple<std::time_t, long, std::string>;
  std::vector<Age> all;
  for (auto& name : entries_of(folder_.fd())) {
    struct stat found{};
    if (::fstatat(folder_.fd(), name.c_str(), &found, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(found.st_mode))
      all.emplace_back(found.st_mtim.tv_sec, found.st_mtim.tv_nsec, std::move(name));
  }
  std::sort(all.begin(), all.end(), std::greater<>());
  for (std::size_t i = folders; i < all.size(); ++i) {
    const std::string& name = std::get<2>(all[i]);
    const Descriptor old(
        ::openat(folder_.fd(), name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!old) continue;
    for (const auto& file : entries_of(old.fd())) ::unlinkat(old.fd(), file.c_str(), 0);
    ::unlinkat(folder_.fd(), name.c_str(), AT_REMOVEDIR);
  }
}

std::ofstream create_file(const std::string& path) {
  return stream_to(open_anew(AT_FDCWD, path, kMostLinks));
}

std::vector<std::string> folders_of_user(const std::string& directory) {
  std::vector<std::string> paths;
  const std::string usual = user_folder_name();
  for (const auto& name : private_names(directory, usual)) {
    if (name == usual || name.starts_with(usual + "-"))
      paths.push_back(fmt::format("{}/{}", directory, name));
  }
  return paths;
}

}  // namespace hora
