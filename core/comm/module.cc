// SPDX-License-Identifier: Apache-2.0
#include "core/comm/module.h"

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

/// The first of these that is there and can be loaded, else nothing and why. Local scope: what a module is
/// linked with must not take the place of another library's functions.
void* open(const std::string& file, const std::filesystem::path& beside, std::string& why) {
  const std::string neighbour = (beside / file).string();
  if (!beside.empty() && ::access(neighbour.c_str(), F_OK) == 0) {
    void* library = ::dlopen(neighbour.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) why = ::dlerror();
    return library;
  }
  void* library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    why = fmt::format("not in {}, and {}", beside.empty() ? "the folder of libhora" : beside.string(),
                      ::dlerror());
  }
  return library;
}

}  // namespace

Module load_module(const std::string& name, const std::string& remedy) {
  const std::string file = fmt::format("libhora_{}.so", name);
  std::string why;
  void* library = open(file, own_folder(), why);
  if (library == nullptr)
    throw Error(Code::unavailable, fmt::format("cannot load {}: {}; {}", file, why, remedy));
  const auto entry = reinterpret_cast<EntryFunction>(::dlsym(library, "hora_module"));
  if (entry == nullptr)
    throw Error(Code::unavailable, fmt::format("{} is no module of Hora: {}", file, remedy));
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
