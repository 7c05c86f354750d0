# SPDX-License-Identifier: Apache-2.0
# The headers of XLA's foreign function interface, which come with the Python package jaxlib. The target
# XlaFfi::XlaFfi has no library.
execute_process(
  COMMAND ${Python3_EXECUTABLE} -c
          "import importlib.util, pathlib; print(pathlib.Path(importlib.util.find_spec('jaxlib').origin).parent / 'include')"
  OUTPUT_VARIABLE include OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
find_path(XlaFfi_INCLUDE_DIR xla/ffi/api/ffi.h HINTS ${include} NO_DEFAULT_PATH)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(XlaFfi REQUIRED_VARS XlaFfi_INCLUDE_DIR)
if(XlaFfi_FOUND AND NOT TARGET XlaFfi::XlaFfi)
  add_library(XlaFfi::XlaFfi INTERFACE IMPORTED)
  target_include_directories(XlaFfi::XlaFfi SYSTEM INTERFACE ${XlaFfi_INCLUDE_DIR})
  # A field of a struct has the name of its type there, which GCC 12 calls an error if it is pedantic.
  target_compile_options(XlaFfi::XlaFfi INTERFACE -Wno-pedantic)
endif()
