# SPDX-License-Identifier: Apache-2.0
include(${CMAKE_CURRENT_LIST_DIR}/carried.cmake)
carried_library(fmt::fmt libfmt.so.*)
set_target_properties(fmt::fmt PROPERTIES INTERFACE_COMPILE_DEFINITIONS FMT_SHARED)
set(fmt_FOUND TRUE)
