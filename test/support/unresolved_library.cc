// SPDX-License-Identifier: Apache-2.0
// Cannot be loaded, like a library whose own libraries are missing.
extern "C" void no_library_has_this();
extern "C" void hora_module() { no_library_has_this(); }
