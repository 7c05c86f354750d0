// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace hora {

// Sleeping until somebody changes a word, which may lie in memory that processes share.

/// Sleeps while the word is `expected`, until it is woken; may return without either.
void futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t expected);
/// The same, until `deadline` at the latest.
void futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t expected,
                std::chrono::steady_clock::time_point deadline);
/// Wakes all threads that sleep there.
void futex_wake(std::atomic<std::uint32_t>& word);

}  // namespace hora
