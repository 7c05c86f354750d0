// SPDX-License-Identifier: Apache-2.0
#include "python/native/dlpack.h"

#include <hora/dtype.h>
#include <hora/status.h>

#include <array>
#include <cstring>
#include <string>
#include <utility>

namespace py = pybind11;

namespace hora {
namespace {

// The binary interface of DLPack: struct by struct as its specification has them.

enum DeviceType : std::int32_t { kCpu = 1, kCuda = 2, kCudaHost = 3, kCudaManaged = 13 };
enum ElementKind : std::uint8_t {
  kInt = 0,
  kUnsigned = 1,
  kFloat = 2,
  kBfloat = 4,
  kComplex = 5,
  kBool = 6,
  kFloat8e4m3fn = 10,
  kFloat8e4m3fnuz = 11,
  kFloat8e5m2 = 12,
  kFloat8e5m2fnuz = 13,
  kFloat8e8m0fnu = 14
};

struct DLDevice {
  std::int32_t type;
  std::int32_t index;
};
struct DLDataType {
  std::uint8_t kind;
  std::uint8_t bits;
  std::uint16_t lanes;
};
struct DLTensor {
  void* data;
  DLDevice device;
  std::int32_t dimensions;
  DLDataType dtype;
  std::int64_t* shape;
  std::int64_t* strides;  // in elements; null: contiguous
  std::uint64_t byte_offset;
};
struct DLManagedTensor {
  DLTensor tensor;
  void* context;
  void (*deleter)(DLManagedTensor*);
};
struct DLManagedTensorVersioned {
  std::uint32_t major;
  std::uint32_t minor;
  void* context;
  void (*deleter)(DLManagedTensorVersioned*);
  std::uint64_t flags;
  DLTensor tensor;
};

/// The C functions of a library, as far as they are used here.
struct ExchangeApi {
  std::uint32_t major;
  std::uint32_t minor;
  ExchangeApi* previous;
  void* allocate;
  void* give;
  void* take;
  int (*look)(void* array, DLTensor* seen);  // may be null; not 0: it has raised
};

constexpr std::uint32_t kMajor = 1;  // of versioned tensors, and of ExchangeApi

[[noreturn]] void refuse(const std::string& why) { throw Error(Code::invalid_argument, why); }

ElementKind code_of(NumberKind kind) {
  switch (kind) {
    case NumberKind::boolean: return kBool;
    case NumberKind::unsigned_integer: return kUnsigned;
    case NumberKind::signed_integer: return kInt;
    case NumberKind::ieee_float: return kFloat;
    case NumberKind::brain_float: return kBfloat;
    case NumberKind::complex: return kComplex;
    case NumberKind::float8_e4m3fn: return kFloat8e4m3fn;
    case NumberKind::float8_e4m3fnuz: return kFloat8e4m3fnuz;
    case NumberKind::float8_e5m2: return kFloat8e5m2;
    case NumberKind::float8_e5m2fnuz: return kFloat8e5m2fnuz;
    case NumberKind::float8_e8m0fnu: return kFloat8e8m0fnu;
  }
  throw Error(Code::internal, "a kind of number that DLPack does not have");
}

std::optional<DType> known_dtype(DLDataType type) {
  for (int i = 0; i < kDTypes && type.lanes == 1; ++i) {
    const auto dtype = static_cast<DType>(i);
    if (type.bits == 8 * size_of(dtype) && type.kind == code_of(kind_of(dtype))) return dtype;
  }
  return std::nullopt;
}

DType dtype_of(DLDataType type) {
  if (const auto known = known_dtype(type)) return *known;
  refuse("its elements (DLPack's type " + std::to_string(type.kind) + ", " + std::to_string(type.bits) +
         " bits) cannot be sent; convert them to bool, an integer, a float of 8 to 64 bits or a complex "
         "number of 64 or 128");
}

DLDataType type_of(DType dtype) {
  return {code_of(kind_of(dtype)), static_cast<std::uint8_t>(8 * size_of(dtype)), 1};
}

Device device_of(DLDevice device) {
  if (device.type == kCpu || device.type == kCudaHost) return {};
  if (device.type == kCuda || device.type == kCudaManaged) return {DeviceKind::cuda, device.index};
  refuse("it lies on a device (DLPack's type " + std::to_string(device.type) +
         ") that Hora does not reach; copy it to the CPU, or to a GPU of NVIDIA's");
}

bool is_contiguous(const DLTensor& tensor) {
  if (tensor.strides == nullptr) return true;
  std::int64_t next = 1;
  for (std::int32_t d = tensor.dimensions - 1; d >= 0; --d) {
    if (tensor.shape[d] == 0) return true;
    if (tensor.shape[d] != 1 && tensor.strides[d] != next) return false;
    next *= tensor.shape[d];
  }
  return true;
}

LentArray view(const DLTensor& tensor, std::shared_ptr<void> keep) {
  return {std::move(keep),
          reinterpret_cast<std::uintptr_t>(tensor.data) + static_cast<std::uintptr_t>(tensor.byte_offset),
          dtype_of(tensor.dtype),
          {tensor.shape, tensor.shape + tensor.dimensions},
          device_of(tensor.device),
          is_contiguous(tensor)};
}

/// The C functions for arrays of this type; null if it has none. Remembers those of the last types.
const ExchangeApi* api_of(PyTypeObject* type) {
  struct Known {
    py::object type;  // kept, so that no other can have its address
    const ExchangeApi* api = nullptr;
  };
  static auto* known = new std::array<Known, 4>;  // never destroyed: at the end there is no interpreter
  static std::size_t next = 0;
  auto* object = reinterpret_cast<PyObject*>(type);
  for (const auto& one : *known)
    if (one.type.ptr() == object) return one.api;
  const auto capsule =
      py::reinterpret_steal<py::object>(PyObject_GetAttrString(object, "__dlpack_c_exchange_api__"));
  const ExchangeApi* api = nullptr;
  if (capsule)
    api = static_cast<const ExchangeApi*>(PyCapsule_GetPointer(capsule.ptr(), "dlpack_exchange_api"));
  PyErr_Clear();
  while (api != nullptr && api->major > kMajor) api = api->previous;
  if (api != nullptr && (api->major != kMajor || api->look == nullptr)) api = nullptr;
  (*known)[next++ % known->size()] = {py::reinterpret_borrow<py::object>(object), api};
  return api;
}

/// Makes the tensor ours, as the protocol has it: by the capsule's new name.
template <typename Managed>
std::shared_ptr<Managed> claim(const py::capsule& capsule, const char* name, const char* used) {
  auto* managed = static_cast<Managed*>(PyCapsule_GetPointer(capsule.ptr(), name));
  if (managed == nullptr || PyCapsule_SetName(capsule.ptr(), used) != 0) throw py::error_already_set();
  return {managed, [](Managed* lent) {
            if (lent->deleter != nullptr) lent->deleter(lent);
          }};
}

/// The content of a capsule that we give.
struct Given {
  DLManagedTensor managed;
  std::shared_ptr<std::byte> memory;
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> strides;
};

/// Of a capsule that nobody has taken over.
void drop(PyObject* capsule) {
  if (PyCapsule_IsValid(capsule, "dltensor") == 0) return;
  auto* managed = static_cast<DLManagedTensor*>(PyCapsule_GetPointer(capsule, "dltensor"));
  managed->deleter(managed);
}

}  // namespace

LentArray take_dlpack(const py::capsule& capsule) {
  const char* name = PyCapsule_GetName(capsule.ptr());
  if (name != nullptr && std::strcmp(name, "dltensor_versioned") == 0) {
    const auto* seen = static_cast<DLManagedTensorVersioned*>(PyCapsule_GetPointer(capsule.ptr(), name));
    if (seen->major != kMajor) refuse("it speaks DLPack " + std::to_string(seen->major) + ", Hora 1");
    const auto owner =
        claim<DLManagedTensorVersioned>(capsule, "dltensor_versioned", "used_dltensor_versioned");
    return view(owner->tensor, owner);
  }
  if (name == nullptr || std::strcmp(name, "dltensor") != 0)
    refuse("its __dlpack__ has returned something else than a capsule of DLPack that nobody has used");
  const auto owner = claim<DLManagedTensor>(capsule, "dltensor", "used_dltensor");
  return view(owner->tensor, owner);
}

std::optional<SeenArray> see_on_host(py::handle array) {
  const ExchangeApi* api = api_of(Py_TYPE(array.ptr()));
  DLTensor tensor{};
  if (api == nullptr) return std::nullopt;
  if (api->look(array.ptr(), &tensor) != 0) {
    PyErr_Clear();  // who looks closer hears why
    return std::nullopt;
  }
  const auto dtype = known_dtype(tensor.dtype);
  if (!dtype || tensor.device.type != kCpu || !is_contiguous(tensor)) return std::nullopt;
  return SeenArray{static_cast<std::byte*>(tensor.data) + tensor.byte_offset,
                   *dtype,
                   {tensor.shape, tensor.shape + tensor.dimensions}};
}

py::capsule give_dlpack(std::shared_ptr<std::byte> memory, Device device, DType dtype,
                        std::vector<std::int64_t> shape) {
  auto given = std::make_unique<Given>();
  given->memory = std::move(memory);
  given->shape = std::move(shape);
  given->strides.resize(given->shape.size());
  std::int64_t next = 1;
  for (std::size_t d = given->shape.size(); d-- > 0; next *= given->shape[d]) given->strides[d] = next;
  given->managed.tensor = {given->memory.get(),
                           {device.kind == DeviceKind::cuda ? kCuda : kCpu, device.index},
                           static_cast<std::int32_t>(given->shape.size()),
                           type_of(dtype),
                           given->shape.data(),
                           given->strides.data(),
                           0};
  given->managed.context = given.get();
  given->managed.deleter = [](DLManagedTensor* managed) { delete static_cast<Given*>(managed->context); };
  py::capsule capsule(&given->managed, "dltensor", drop);
  static_cast<void>(given.release());  // the capsule's, or who takes it over
  return capsule;
}

}  // namespace hora
