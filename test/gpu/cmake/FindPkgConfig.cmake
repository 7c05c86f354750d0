# SPDX-License-Identifier: Apache-2.0
# Stands in for pkg-config, which the machine need not have: it knows what is carried.
include(${CMAKE_CURRENT_LIST_DIR}/carried.cmake)
set(PkgConfig_FOUND TRUE)

function(pkg_check_modules prefix)
  carried_library(PkgConfig::${prefix} lib${prefix}.so.*)
endfunction()
