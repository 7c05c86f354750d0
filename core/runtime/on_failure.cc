// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/on_failure.h"

#include "core/base/demangled.h"
#include "core/base/full_traces.h"
#include "core/base/memory.h"
#include "core/base/owner_process.h"

#include <hora/end_report.h>
#include <hora/status.h>

#include <cxxabi.h>
#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

namespace hora {
namespace {

constexpr std::chrono::seconds kMostTimeToTell{1};

struct Notice {
  OwnerProcess owner;
  std::function<void(const std::string&)> tell;
};

/// The notices that are to be told of a failure. All but `former` is under the mutex.
struct Notices {
  std::atomic<std::terminate_handler> former{nullptr};
  std::mutex mutex;
  std::map<int, Notice> by_number;
  int next = 0;
};

/// For ever: std::terminate may be called when static objects are gone.
Notices& notices() {
  static Notices& all = []() -> Notices& {
    const auto made = std::make_shared<Notices>();
    keep_for_ever(made);
    return *made;
  }();
  return all;
}

std::string what_is_uncaught() {
  const std::exception_ptr current = std::current_exception();
  const std::type_info* type = abi::__cxa_current_exception_type();
  if (!current || type == nullptr) return "it called std::terminate";
  try {
    std::rethrow_exception(current);
  } catch (const std::exception& error) {
    return fmt::format("uncaught {}: {}", demangled(type->name()), error.what());
  } catch (...) {
    return fmt::format("uncaught exception of type {}", demangled(type->name()));
  }
}

void tell_all(Notices& all, const std::string& why) {
  const auto told = std::make_shared<std::promise<void>>();
  auto end = told->get_future();
  std::thread([&all, told, why] {
    const std::lock_guard lock(all.mutex);
    for (const auto& [number, notice] : all.by_number) {
      if (notice.owner.is_this()) notice.tell(why);
    }
    told->set_value();
  }).detach();
  static_cast<void>(end.wait_for(kMostTimeToTell));
}

/// An uncaught Error is much the same on many ranks. Where its process would print it by the way of the
/// standard library's, the launcher prints it instead, once for all; whether it does.
bool handed_to_launcher(std::terminate_handler former) {
  const std::exception_ptr current = std::current_exception();
  if (!current || former != __gnu_cxx::__verbose_terminate_handler || !launcher_reads_stderr()) return false;
  try {
    std::rethrow_exception(current);
  } catch (const Error& error) {
    const std::string text = fmt::format(
        "terminate called after throwing an instance of 'hora::Error'\n  what():  {}\n", error.what());
    return report_end(fmt::format("hora::Error: {}", error.what()), "", text);
  } catch (...) {
    return false;
  }
}

void tell_once(Notices& all, const std::function<std::string()>& why) {
  static std::once_flag once;  // a second thread that fails waits until the first has told
  std::call_once(once, [&] {
    try {
      tell_all(all, why());
    } catch (const std::exception&) {
      return;  // without memory or threads the others hear of the end alone
    }
  });
}

[[noreturn]] void handle_terminate() {
  static thread_local bool inside = false;
  if (std::exchange(inside, true)) std::abort();  // two handlers that each call the other
  Notices& all = notices();
  static bool handed = false;  // written by the one that tells
  tell_once(all, [&] {
    handed = handed_to_launcher(all.former);
    return what_is_uncaught();
  });
  if (const auto former = all.former.load(); former && !handed) former();
  std::abort();
}

/// `argument` is a notice's number.
void handle_exit(int status, void* argument) {
  constexpr int kStatusBits = 0xff;  // that others see
  if ((status & kStatusBits) == 0) return;
  Notices& all = notices();
  {
    const std::lock_guard lock(all.mutex);
    const auto found = all.by_number.find(static_cast<int>(reinterpret_cast<std::intptr_t>(argument)));
    if (found == all.by_number.end() || !found->second.owner.is_this()) return;
  }
  tell_once(all, [&] { return fmt::format("it exited with code {}", status & kStatusBits); });
}

}  // namespace

OnFailure::OnFailure(std::function<void(const std::string&)> notice) {
  Notices& all = notices();
  const std::lock_guard lock(all.mutex);
  if (std::get_terminate() != handle_terminate) all.former = std::set_terminate(handle_terminate);
  number_ = all.next++;
  all.by_number.emplace(number_, Notice{{}, std::move(notice)});
  // Without memory for that the others hear of an exit from the end of the process.
  // NOLINTNEXTLINE(performance-no-int-to-ptr): a number is all that is needed
  ::on_exit(handle_exit, reinterpret_cast<void*>(static_cast<std::intptr_t>(number_)));
}

OnFailure::~OnFailure() {
  Notices& all = notices();
  const std::lock_guard lock(all.mutex);
  all.by_number.erase(number_);
}

}  // namespace hora
