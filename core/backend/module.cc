// SPDX-License-Identifier: Apache-2.0
#include "core/backend/module.h"

#include <hora/hora.h>

#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <string_view>

namespace hora {
namespace {

using EntryFunction = const ModuleFace* (*)();

/// The folder of the library, or program, that this code is in; empty if nobody knows.
std::filesystem::path own_folder() {
  Dl_info found{};
  const bool known = ::dladdr(reinterpret_cast<const void*>(&load_module), &found) != 0;
  if (!known || found.dli_fname == nullptr) return {};
  return std::filesystem::path(found.dli_fname).parent_path();
}

/// Loads the library that is beside libhora, else the one that the dynamic linker finds. Throws
/// Error(unavailable). Local scope: libraries of a module must not take the place of another library's
/// functions.
void* open(const std::string& file, const std::filesystem::path& beside, const ModuleRemedies& remedies) {
  const std::string neighbour = (beside / file).string();
  const bool there = !beside.empty() && ::access(neighbour.c_str(), F_OK) == 0;
  void* library = ::dlopen(there ? neighbour.c_str() : file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library != nullptr) return library;
  const std::string why = ::dlerror();
  if (there)
    throw Error(Code::unavailable, fmt::format("cannot load {}: {}; {}", file, why, remedies.unloadable));
  const std::string folder = beside.empty() ? "the folder of libhora" : beside.string();
  throw Error(Code::unavailable,
              fmt::format("cannot load {}: not in {}, and {}; {}", file, folder, why, remedies.absent));
}

}  // namespace

Module load_module(const std::string& name, const ModuleRemedies& remedies) {
  const std::string file = fmt::format("libhora_{}.so", name);
  void* library = open(file, own_folder(), remedies);
  const auto entry = reinterpret_cast<EntryFunction>(::dlsym(library, "hora_module"));
  if (entry == nullptr)
    throw Error(Code::unavailable, fmt::format("{} is no module of Hora: {}", file, remedies.absent));
  const ModuleFace& face = *entry();
  Dl_info found{};
  ::dladdr(reinterpret_cast<const void*>(entry), &found);
  const std::string path = found.dli_fname != nullptr ? found.dli_fname : file;
  if (std::string_view(face.version) != version()) {
    throw Error(Code::unavailable,
                fmt::format("{} belongs to Hora {}, and this is Hora {}: install both from one build", path,
                            face.version, version()));
  }
  return {path, face.functions};
}

}  // namespace hora
