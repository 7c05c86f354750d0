// SPDX-License-Identifier: Apache-2.0
#include "core/backend/nccl/unregistered_copies.h"

namespace hora::nccl {

// On the lane's stream, so that neither taking memory nor giving it back waits for the GPU.
void* UnregisteredCopies::buffer_for(void* data, void* home, std::size_t bytes) {
  if (bytes == 0 || !communicator_.knows_of_users(data)) return data;
  ways_.push_back({lane_.context().gpu->allocate_on(lane_.native_stream(), bytes), home, bytes});
  return ways_.back().memory.get();
}

const void* UnregisteredCopies::read(const void* data, std::size_t bytes) {
  void* buffer = buffer_for(const_cast<void*>(data), nullptr, bytes);  // NOLINT: only read from
  if (buffer != data) lane_.stream().copy(buffer, data, bytes);
  return buffer;
}

void* UnregisteredCopies::written(void* data, std::size_t bytes) { return buffer_for(data, data, bytes); }

void* UnregisteredCopies::both(void* data, std::size_t bytes) {
  void* buffer = buffer_for(data, data, bytes);
  if (buffer != data) lane_.stream().copy(buffer, data, bytes);
  return buffer;
}

void UnregisteredCopies::end() {
  for (const auto& way : ways_) {
    if (way.home != nullptr) lane_.stream().copy(way.home, way.memory.get(), way.bytes);
  }
}

}  // namespace hora::nccl
