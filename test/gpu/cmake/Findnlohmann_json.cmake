# SPDX-License-Identifier: Apache-2.0
include(${CMAKE_CURRENT_LIST_DIR}/carried.cmake)
carried_headers(nlohmann_json::nlohmann_json)
set(nlohmann_json_FOUND TRUE)
