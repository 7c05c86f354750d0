# SPDX-License-Identifier: Apache-2.0
include(${CMAKE_CURRENT_LIST_DIR}/carried.cmake)
carried_library(yaml-cpp libyaml-cpp.so.*)
set(yaml-cpp_FOUND TRUE)
