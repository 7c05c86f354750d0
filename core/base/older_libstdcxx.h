// SPDX-License-Identifier: Apache-2.0
#pragma once

// Included before every file of libhora with HORA_OLDER_LIBSTDCXX, as in wheels. GCC 12 gave
// std::condition_variable::wait a second version, which differs in `noexcept` alone. Every libstdc++ has the
// first one.
__asm__(
    ".symver _ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE,"
    "_ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE@GLIBCXX_3.4.11");
