// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/on_terminate.h"

#include "core/base/demangled.h"
#include "core/base/memory.h"

#include <cxxabi.h>
#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
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
  pid_t owner;
  std::function<void(const std::string&)> tell;
};

/// Who is to be told. All but `former` is under the mutex.
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

void tell_all(Notices& all) {
  const auto told = std::make_shared<std::promise<void>>();
  auto end = told->get_future();
  std::thread([&all, told, why = what_is_uncaught()] {
    const std::lock_guard lock(all.mutex);
    for (const auto& [number, notice] : all.by_number) {
      if (notice.owner == ::getpid()) notice.tell(why);
    }
    told->set_value();
  }).detach();
  static_cast<void>(end.wait_for(kMostTimeToTell));
}

[[noreturn]] void handle_terminate() {
  static thread_local bool inside = false;
  if (std::exchange(inside, true)) std::abort();  // two handlers that each call the other
  static std::once_flag once;                     // a second thread that fails waits until the first has told
  Notices& all = notices();
  std::call_once(once, [&] {
    try {
      tell_all(all);
    } catch (const std::exception&) {
      return;  // without memory or threads the others hear of the end alone
    }
  });
  if (const auto former = all.former.load()) former();
  std::abort();
}

}  // namespace

OnTerminate::OnTerminate(std::function<void(const std::string&)> notice) {
  Notices& all = notices();
  const std::lock_guard lock(all.mutex);
  if (std::get_terminate() != handle_terminate) all.former = std::set_terminate(handle_terminate);
  number_ = all.next++;
  all.by_number.emplace(number_, Notice{::getpid(), std::move(notice)});
}

OnTerminate::~OnTerminate() {
  Notices& all = notices();
  const std::lock_guard lock(all.mutex);
  all.by_number.erase(number_);
}

}  // namespace hora
