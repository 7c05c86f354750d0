// SPDX-License-Identifier: Apache-2.0
// A library that cannot be loaded, as one whose own libraries are not installed.
extern "C" void no_library_has_this();
extern "C" void hora_module() { no_library_has_this(); }
