# SPDX-License-Identifier: Apache-2.0
include(${CMAKE_CURRENT_LIST_DIR}/carried.cmake)
carried_headers(CLI11::CLI11)
set(CLI11_FOUND TRUE)
