// SPDX-License-Identifier: Apache-2.0
// Compiles the headers that tests share (test/CMakeLists.txt).
