// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace hora {

/// The result of the entry function of a module: `extern "C" const hora::ModuleFace* hora_module()`.
struct ModuleFace {
  const char* version = nullptr;    ///< of the Hora that it was built with
  const void* functions = nullptr;  ///< a table; the module's own header declares it
};

/// A library libhora_<name>.so that libhora loads when it is wanted, because it needs libraries that libhora
/// must not need. It stays loaded until the process ends. A value.
struct Module {
  std::string path;
  const void* functions = nullptr;
};

/// Remedies for a module that cannot be loaded, each the end of a sentence. A value.
struct ModuleRemedies {
  std::string absent;      ///< if the module is not installed
  std::string unloadable;  ///< if the module is there, but cannot be loaded
};

/// Loads a module from beside libhora, else from where the dynamic linker looks. Throws Error(unavailable)
/// that says where it looked and what was wrong there, then a remedy; also for a module of another version of
/// Hora. Thread-safe; loading one again is cheap.
[[nodiscard]] Module load_module(const std::string& name, const ModuleRemedies& remedies);

}  // namespace hora
