# SPDX-License-Identifier: Apache-2.0
# LibTorch without a CUDA toolkit: its own package file wants one, but linking needs only the headers and three
# libraries. Looks in CMAKE_PREFIX_PATH (an unpacked libtorch, or what torch.utils.cmake_prefix_path says), beside
# Torch_DIR and in LibTorch_HINTS, else asks Python's torch. Defines LibTorch::LibTorch.
find_path(LibTorch_INCLUDE_DIR torch/script.h
          HINTS ${CMAKE_PREFIX_PATH} ENV CMAKE_PREFIX_PATH ${Torch_DIR} ${LibTorch_HINTS}
          PATH_SUFFIXES ../../include ../../../include)  # from share/cmake, and from share/cmake/Torch
if(Python3_EXECUTABLE)
  set(LibTorch_PYTHON ${Python3_EXECUTABLE})
else()
  find_program(LibTorch_PYTHON NAMES python3 python)
endif()
if(NOT LibTorch_INCLUDE_DIR AND LibTorch_PYTHON)
  execute_process(
    COMMAND ${LibTorch_PYTHON} -c
            "import importlib.util as u, os; print(os.path.dirname(u.find_spec('torch').origin))"
    OUTPUT_VARIABLE LibTorch_ROOT_DIR OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(LibTorch_ROOT_DIR)
    find_path(LibTorch_INCLUDE_DIR torch/script.h PATHS ${LibTorch_ROOT_DIR}/include NO_DEFAULT_PATH)
  endif()
endif()
foreach(library torch torch_cpu c10)
  find_library(LibTorch_${library}_LIBRARY ${library} HINTS ${LibTorch_INCLUDE_DIR}/../lib)
endforeach()
foreach(header torch/headeronly/version.h torch/csrc/api/include/torch/version.h)  # from 2.9 on, and before
  if(NOT LibTorch_VERSION AND EXISTS ${LibTorch_INCLUDE_DIR}/${header})
    file(STRINGS ${LibTorch_INCLUDE_DIR}/${header} LibTorch_VERSION REGEX "define TORCH_VERSION_(MAJOR|MINOR|PATCH) ")
    string(REGEX REPLACE "[^;]* ([0-9]+)[^;]*" "\\1" LibTorch_VERSION "${LibTorch_VERSION}")
    list(JOIN LibTorch_VERSION . LibTorch_VERSION)
  endif()
endforeach()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(
  LibTorch REQUIRED_VARS LibTorch_INCLUDE_DIR LibTorch_torch_LIBRARY LibTorch_torch_cpu_LIBRARY LibTorch_c10_LIBRARY
  VERSION_VAR LibTorch_VERSION)
if(LibTorch_FOUND AND NOT TARGET LibTorch::LibTorch)
  add_library(LibTorch::LibTorch INTERFACE IMPORTED)
  target_include_directories(LibTorch::LibTorch SYSTEM INTERFACE
                             ${LibTorch_INCLUDE_DIR} ${LibTorch_INCLUDE_DIR}/torch/csrc/api/include)
  # libtorch has no symbols of its own. It loads LibTorch's part for CUDA, and the linkers of Ubuntu leave such libraries out.
  target_link_libraries(LibTorch::LibTorch INTERFACE "-Wl,--push-state,--no-as-needed,${LibTorch_torch_LIBRARY},--pop-state"
                                                     ${LibTorch_torch_cpu_LIBRARY} ${LibTorch_c10_LIBRARY})
endif()
mark_as_advanced(LibTorch_INCLUDE_DIR LibTorch_PYTHON LibTorch_torch_LIBRARY LibTorch_torch_cpu_LIBRARY
                 LibTorch_c10_LIBRARY)
