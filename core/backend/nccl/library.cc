// SPDX-License-Identifier: Apache-2.0
#include "core/backend/nccl/library.h"

#include "core/base/log.h"

#include <hora/status.h>

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <link.h>

#include <filesystem>
#include <string_view>
#include <system_error>
#include <type_traits>

namespace hora::nccl {
namespace {

constexpr const char* kFile = "libnccl.so.2";
constexpr const char* kRemedy =
    "install NVIDIA's NCCL (pip install nvidia-nccl-cu13), or name its file in HORA_NCCL_LIBRARY";

int note_nccl(dl_phdr_info* info, std::size_t /*size*/, void* found) {
  const std::string_view path = info->dlpi_name != nullptr ? info->dlpi_name : "";
  const std::string_view file = path.substr(path.rfind('/') + 1);
  if (!file.starts_with("libnccl.so")) return 0;
  *static_cast<std::string*>(found) = path;
  return 1;
}

/// The path of the NCCL that the process has loaded; empty if it has none.
std::string loaded_nccl() {
  std::string path;
  ::dl_iterate_phdr(note_nccl, &path);
  return path;
}

bool same_file(const std::string& one, const std::string& other) {
  std::error_code ignored;
  return one == other || std::filesystem::equivalent(one, other, ignored);
}

// Local scope: NCCL's names must not take the place of those of another one that is loaded later.
void* open_file(const std::string& file) { return ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL); }

void* open_loaded(const std::string& loaded, const std::string& path) {
  if (!path.empty() && !same_file(loaded, path)) {
    log(LogLevel::warning,
        fmt::format(
            "HORA_NCCL_LIBRARY names {}, but this process has loaded {} already, as PyTorch does when "
            "it is imported; that one is used, because two NCCLs in a process do not get along",
            path, loaded));
  }
  void* library = ::dlopen(loaded.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
  if (library == nullptr) {
    throw Error(Code::unavailable,
                fmt::format("cannot use NCCL as this process has loaded it, {}: {}", loaded, ::dlerror()));
  }
  return library;
}

/// `packaged`: the file that PyTorch would load.
void warn_of_other(const std::string& path, const std::string& packaged) {
  std::error_code ignored;
  if (!std::filesystem::exists(packaged, ignored) || same_file(path, packaged)) return;
  log(LogLevel::warning,
      fmt::format(
          "HORA_NCCL_LIBRARY names {}, and PyTorch brings {}. A process has one NCCL, so a PyTorch that "
          "is imported from now on is given the first. If that is older, import PyTorch before Hora",
          path, packaged));
}

void* open_given(const std::string& path) {
  void* library = open_file(path);
  if (library == nullptr) {
    throw Error(Code::unavailable,
                fmt::format("cannot load NCCL, which HORA_NCCL_LIBRARY names: {}", ::dlerror()));
  }
  return library;
}

void* open_first(const std::vector<std::string>& paths) {
  std::vector<std::string> reasons;
  for (const auto& path : paths) {
    void* library = open_file(path);
    if (library != nullptr) return library;
    reasons.emplace_back(::dlerror());
  }
  throw Error(Code::unavailable,
              fmt::format("there is no NCCL here ({}): {}", fmt::join(reasons, "; "), kRemedy));
}

void* open_any(const std::string& path, const std::vector<std::string>& paths) {
  const std::string loaded = loaded_nccl();
  if (!loaded.empty()) return open_loaded(loaded, path);
  if (path.empty()) return open_first(paths);
  if (!paths.empty()) warn_of_other(path, paths.front());
  return open_given(path);
}

std::string path_of(const void* function) {
  Dl_info found{};
  const bool known = ::dladdr(function, &found) != 0;
  return known && found.dli_fname != nullptr ? found.dli_fname : kFile;
}

int version_of(void* library) {
  const auto get_version =
      reinterpret_cast<decltype(NcclFunctions::get_version)>(::dlsym(library, "ncclGetVersion"));
  int version = 0;
  if (get_version == nullptr || get_version(&version) != ncclSuccess) return 0;
  return version;
}

// pytorch/pytorch#149153: ncclCommAbort does not return when a rank is gone.
bool hangs_in_abort(int version) { return version >= 22'500 && version < 22'602; }

void warn_of(const NcclLibrary& library) {
  if (!hangs_in_abort(library.version)) return;
  log(LogLevel::warning,
      fmt::format(
          "NCCL {} ({}) may not return from ncclCommAbort when a rank is lost. The job's other ranks "
          "get their error all the same, but may keep the GPU busy until they end: use 2.26.2 or later",
          nccl_version(library.version), library.path));
}

}  // namespace

std::vector<std::string> nccl_paths(const std::string& packaged) {
  const auto own = std::filesystem::absolute(path_of(reinterpret_cast<const void*>(&open_nccl)));
  const auto beside = (own.parent_path() / "../nvidia/nccl/lib" / kFile).lexically_normal().string();
  return {packaged.empty() ? beside : packaged, kFile, std::string("/usr/local/cuda/lib64/") + kFile};
}

OpenNccl open_nccl(const std::string& path, const std::vector<std::string>& paths) {
  void* library = open_any(path, paths);
  OpenNccl nccl;
  nccl.library.version = version_of(library);
  std::string missing;
  for_each_function(nccl.functions, [&](auto& function, const char* name, int since) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(library, name));
    if (since > nccl.library.version) function = nullptr;
    if (function == nullptr && missing.empty() && since <= nccl.library.version) missing = name;
  });
  const void* const function = ::dlsym(library, "ncclGetVersion");
  nccl.library.path = function != nullptr ? path_of(function) : path.empty() ? kFile : path;
  if (nccl.library.version == 0) {
    throw Error(Code::unavailable, fmt::format("{} is no NCCL: its ncclGetVersion says nothing; {}",
                                               nccl.library.path, kRemedy));
  }
  if (nccl.library.version < kOldestNccl) {
    throw Error(Code::unavailable,
                fmt::format("NCCL {} ({}) is too old: Hora needs {} or later, for ncclCommSplit; {}",
                            nccl_version(nccl.library.version), nccl.library.path, nccl_version(kOldestNccl),
                            kRemedy));
  }
  if (!missing.empty()) {
    throw Error(Code::unavailable,
                fmt::format("NCCL {} ({}) lacks {}; {}", nccl_version(nccl.library.version),
                            nccl.library.path, missing, kRemedy));
  }
  warn_of(nccl.library);
  return nccl;
}

}  // namespace hora::nccl
