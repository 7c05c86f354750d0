# SPDX-License-Identifier: Apache-2.0
# LibTorch without a CUDA toolkit: its own package file wants one, but linking needs only the headers and three
# libraries. Looks in CMAKE_PREFIX_PATH (an unpacked libtorch), else asks Python's torch. Defines LibTorch::LibTorch.
find_path(LibTorch_INCLUDE_DIR torch/script.h)
if(NOT LibTorch_INCLUDE_DIR AND Python3_EXECUTABLE)
  execute_process(
    COMMAND ${Python3_EXECUTABLE} -c
            "import importlib.util as u, os; print(os.path.dirname(u.find_spec('torch').origin))"
    OUTPUT_VARIABLE LibTorch_ROOT_DIR OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(LibTorch_ROOT_DIR)
    find_path(LibTorch_INCLUDE_DIR torch/script.h PATHS ${LibTorch_ROOT_DIR}/include NO_DEFAULT_PATH)
  endif()
endif()
foreach(library torch torch_cpu c10)
  find_library(LibTorch_${library}_LIBRARY ${library} HINTS ${LibTorch_INCLUDE_DIR}/../lib)
endforeach()
find_file(LibTorch_VERSION_HEADER torch/version.h torch/headeronly/version.h
          PATHS ${LibTorch_INCLUDE_DIR} ${LibTorch_INCLUDE_DIR}/torch/csrc/api/include NO_DEFAULT_PATH)
if(LibTorch_VERSION_HEADER)
  file(STRINGS ${LibTorch_VERSION_HEADER} LibTorch_VERSION REGEX "define TORCH_VERSION ")
  string(REGEX MATCH "[0-9]+\\.[0-9.]+[0-9]" LibTorch_VERSION "${LibTorch_VERSION}")
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(
  LibTorch REQUIRED_VARS LibTorch_INCLUDE_DIR LibTorch_torch_LIBRARY LibTorch_torch_cpu_LIBRARY LibTorch_c10_LIBRARY
  VERSION_VAR LibTorch_VERSION)
if(LibTorch_FOUND AND NOT TARGET LibTorch::LibTorch)
  add_library(LibTorch::LibTorch INTERFACE IMPORTED)
  target_include_directories(LibTorch::LibTorch SYSTEM INTERFACE
                             ${LibTorch_INCLUDE_DIR} ${LibTorch_INCLUDE_DIR}/torch/csrc/api/include)
  target_link_libraries(LibTorch::LibTorch INTERFACE ${LibTorch_torch_LIBRARY} ${LibTorch_torch_cpu_LIBRARY}
                                                     ${LibTorch_c10_LIBRARY})
endif()
mark_as_advanced(LibTorch_INCLUDE_DIR LibTorch_VERSION_HEADER LibTorch_torch_LIBRARY LibTorch_torch_cpu_LIBRARY
                 LibTorch_c10_LIBRARY)
