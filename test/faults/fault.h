// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "test/faults/stage.h"

#include <chrono>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace hora {

constexpr auto kLookAgain = std::chrono::microseconds(200);

/// The value of an environment variable; empty: it is not set.
std::string variable(const char* name);

/// The part of a rank in the test. A value.
struct Part {
  std::string phase;
  std::string plane;
  std::string fault;
  std::set<int> victims;
  std::size_t elements = 0;
  int rank = 0;
  int size = 1;

  [[nodiscard]] bool victim() const { return victims.contains(rank); }
  /// The rank that keeps the others waiting until the fault has happened, where they must not be done before.
  [[nodiscard]] bool late() const { return rank == size - 1; }
  [[nodiscard]] bool deviates() const { return fault == "skip" || fault == "shape" || fault == "twice"; }
};

/// From the arguments STAGE PHASE PLANE FAULT VICTIMS BYTES of a program: VICTIMS are ranks with commas
/// between them, BYTES is how large a tensor is that takes its time. Rank and size are the launcher's.
Part part_of(char** arguments);

/// The descriptors of this process, and what they are.
std::map<int, std::string> descriptors();

/// Runs the part of a rank, which may end with an Error. Tells the stage of its beginning, its end, and the
/// descriptors that it was given and has left. Returns the exit code.
int play(char** arguments, const Part& part, const std::function<void(Stage& stage)>& run);

/// Whether the main thread sleeps in the kernel.
bool main_thread_sleeps();

/// The fault happens to this process, here and now. Returns if that lets it go on.
void befall(Stage& stage, const Part& part, const std::string& where);

}  // namespace hora
