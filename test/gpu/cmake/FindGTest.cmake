# SPDX-License-Identifier: Apache-2.0
include(${CMAKE_CURRENT_LIST_DIR}/carried.cmake)
carried_library(GTest::gtest libgtest.a Threads::Threads)
carried_library(GTest::gtest_main libgtest_main.a GTest::gtest)
carried_library(GTest::gmock libgmock.a GTest::gtest)
carried_library(GTest::gmock_main libgmock_main.a GTest::gmock)
set(GTest_FOUND TRUE)
