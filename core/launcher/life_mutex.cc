// SPDX-License-Identifier: Apache-2.0
#include "core/launcher/life_mutex.h"

#include <hora/status.h>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace hora {

LifeMutex::LifeMutex() : file_(::memfd_create("hora-life", MFD_CLOEXEC)) {
  if (!file_ || ::ftruncate(file_.fd(), sizeof(Shared)) != 0) {
    throw Error(Code::unavailable,
                fmt::format("cannot make shared memory (memfd_create): {}", std::strerror(errno)));
  }
  map(file_.fd());
  pthread_mutexattr_t attributes{};
  ::pthread_mutexattr_init(&attributes);
  ::pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  ::pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
  ::pthread_mutex_init(&shared_->mutex, &attributes);
  ::pthread_mutexattr_destroy(&attributes);
}

LifeMutex::LifeMutex(int file) {
  struct stat described{};
  if (::fcntl(file, F_SETFD, FD_CLOEXEC) != 0 || ::fstat(file, &described) != 0 ||
      described.st_size != static_cast<off_t>(sizeof(Shared))) {
    throw Error(Code::invalid_argument,
                "HORA_LIFE_FD is no memory that hrun has made: start the ranks with hrun");
  }
  map(file);
}

LifeMutex::~LifeMutex() {
  if (holds_) ::pthread_mutex_unlock(&shared_->mutex);
  ::munmap(shared_, sizeof(Shared));
}

void LifeMutex::map(int file) {
  void* mapped = ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (mapped == MAP_FAILED)
    throw Error(Code::unavailable, fmt::format("cannot map shared memory: {}", std::strerror(errno)));
  shared_ = static_cast<Shared*>(mapped);
}

void LifeMutex::hold() {
  shared_->holder = ::getpid();
  ::pthread_mutex_lock(&shared_->mutex);
  holds_ = true;
}

pid_t LifeMutex::await_end() {
  const bool ended = ::pthread_mutex_lock(&shared_->mutex) == EOWNERDEAD;
  ::pthread_mutex_unlock(&shared_->mutex);  // after an end nobody can hold it again
  return ended ? shared_->holder : 0;
}

}  // namespace hora
