# SPDX-License-Identifier: Apache-2.0
# The tools that build libhora_nccl: CudaAndNccl_NVCC, the compiler for kernels, and the target CudaAndNccl::headers, the
# headers of CUDA and of NCCL. Nothing is linked: driver and NCCL are opened when they are wanted. They come from the
# toolkit (nvcc in PATH, CUDA_HOME, /usr/local/cuda) and NCCL's package, or from NVIDIA's wheels for Python.
# enable_language(CUDA) would have to link a program with CUDA's runtime, which the wheels do not allow.
if(Python3_EXECUTABLE)
  execute_process(
    COMMAND ${Python3_EXECUTABLE} -c "import sysconfig; print(sysconfig.get_path('purelib') + '/nvidia')"
    OUTPUT_VARIABLE CudaAndNccl_WHEELS OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
file(GLOB CudaAndNccl_TOOLKITS ${CudaAndNccl_WHEELS}/cu[0-9]*)

find_program(CudaAndNccl_NVCC nvcc HINTS ENV CUDA_HOME PATHS /usr/local/cuda ${CudaAndNccl_TOOLKITS} PATH_SUFFIXES bin)
# The headers must be those of this nvcc.
if(CudaAndNccl_NVCC)
  file(REAL_PATH ${CudaAndNccl_NVCC} CudaAndNccl_BIN)
  cmake_path(GET CudaAndNccl_BIN PARENT_PATH CudaAndNccl_BIN)
  cmake_path(GET CudaAndNccl_BIN PARENT_PATH CudaAndNccl_ROOT)
  find_path(CudaAndNccl_CUDA_INCLUDE_DIR cuda.h HINTS ${CudaAndNccl_ROOT} ENV CUDA_HOME PATHS /usr/local/cuda
            PATH_SUFFIXES include)
endif()
find_path(CudaAndNccl_NCCL_INCLUDE_DIR nccl.h HINTS ENV NCCL_HOME ${CudaAndNccl_ROOT} PATHS ${CudaAndNccl_WHEELS}/nccl
          PATH_SUFFIXES include)

if(CudaAndNccl_NCCL_INCLUDE_DIR)
  file(STRINGS ${CudaAndNccl_NCCL_INCLUDE_DIR}/nccl.h CudaAndNccl_LINES REGEX "^#define NCCL_(MAJOR|MINOR|PATCH) [0-9]+")
  string(REGEX REPLACE "[^0-9;]" "" CudaAndNccl_NUMBERS "${CudaAndNccl_LINES}")
  list(JOIN CudaAndNccl_NUMBERS . CudaAndNccl_VERSION)
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(
  CudaAndNccl
  REQUIRED_VARS CudaAndNccl_NVCC CudaAndNccl_CUDA_INCLUDE_DIR CudaAndNccl_NCCL_INCLUDE_DIR
  VERSION_VAR CudaAndNccl_VERSION)
if(CudaAndNccl_FOUND AND NOT TARGET CudaAndNccl::headers)
  add_library(CudaAndNccl::headers INTERFACE IMPORTED)
  target_include_directories(CudaAndNccl::headers SYSTEM INTERFACE ${CudaAndNccl_CUDA_INCLUDE_DIR}
                                                                   ${CudaAndNccl_NCCL_INCLUDE_DIR})
endif()
mark_as_advanced(CudaAndNccl_NVCC CudaAndNccl_CUDA_INCLUDE_DIR CudaAndNccl_NCCL_INCLUDE_DIR)
