# SPDX-License-Identifier: Apache-2.0
# The files that test/gpu/pack has collected, as targets: for the find modules beside this.
cmake_path(SET carried NORMALIZE ${CMAKE_CURRENT_LIST_DIR}/../../../.gpu)

# carried_library(target pattern [targets that it needs...]): the one file that the pattern names in .gpu/lib
function(carried_library target pattern)
  if(TARGET ${target})
    return()
  endif()
  file(GLOB files ${carried}/lib/${pattern})
  list(LENGTH files count)
  if(NOT count EQUAL 1)
    message(FATAL_ERROR "${carried}/lib has ${count} files ${pattern}: run test/gpu/pack where Hora is developed")
  endif()
  add_library(${target} UNKNOWN IMPORTED GLOBAL)
  set_target_properties(${target} PROPERTIES IMPORTED_LOCATION ${files} INTERFACE_LINK_LIBRARIES "${ARGN}")
  target_include_directories(${target} SYSTEM INTERFACE ${carried}/include)
endfunction()

function(carried_headers target)
  if(NOT TARGET ${target})
    add_library(${target} INTERFACE IMPORTED GLOBAL)
    target_include_directories(${target} SYSTEM INTERFACE ${carried}/include)
  endif()
endfunction()
