// SPDX-License-Identifier: Apache-2.0
#include "test/frameworks/jax/xla_calls.h"

#include <gtest/gtest.h>
#include <hora/c.h>
#include <xla/ffi/api/ffi.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <utility>

XLA_FFI_DECLARE_HANDLER_SYMBOL(hora_jax_instantiate);
XLA_FFI_DECLARE_HANDLER_SYMBOL(hora_jax_execute_on_host);
XLA_FFI_DECLARE_HANDLER_SYMBOL(hora_jax_execute_on_gpu);
extern "C" void* hora_jax_operation_id();
extern "C" void* hora_jax_operation_info();

// The objects that the interface's handles point to.

struct XLA_FFI_Error {
  hora::jax::XlaStatus status;
};

struct XLA_FFI_ExecutionContext {
  void* state = nullptr;
  void* stream = nullptr;
  std::int32_t device = 0;
};

namespace hora::jax {

/// The end of an execution, which the thread that fulfils the future shares with the one that waits.
struct XlaFulfilment {
  std::mutex mutex;
  std::condition_variable fulfilled;
  std::optional<XlaStatus> status;  // guarded by the mutex
  std::thread::id by;               // guarded by the mutex

  void set(XlaStatus given) {
    const std::lock_guard lock(mutex);
    if (status) ADD_FAILURE() << "fulfilled twice";
    status = std::move(given);
    by = std::this_thread::get_id();
    fulfilled.notify_all();
  }
  std::optional<XlaStatus> wait(std::chrono::seconds time) {
    std::unique_lock lock(mutex);
    fulfilled.wait_for(lock, time, [this] { return status.has_value(); });
    return status;
  }
};

}  // namespace hora::jax

struct XLA_FFI_Future {
  std::shared_ptr<hora::jax::XlaFulfilment> fulfilment = std::make_shared<hora::jax::XlaFulfilment>();
};

namespace hora::jax {
namespace {

constexpr std::int64_t kTypeId = 7;

XlaStatus taken(XLA_FFI_Error* error) {
  const std::unique_ptr<XLA_FFI_Error> owned(error);
  return owned ? owned->status : XlaStatus{};
}

XLA_FFI_Error* error_create(XLA_FFI_Error_Create_Args* args) {
  return new XLA_FFI_Error{{args->errc, args->message}};
}

void error_get_message(XLA_FFI_Error_GetMessage_Args* args) {
  args->message = args->error->status.message.c_str();
}

void error_destroy(XLA_FFI_Error_Destroy_Args* args) { taken(args->error); }

XLA_FFI_Error* state_set(XLA_FFI_State_Set_Args* args) {
  if (args->type_id->type_id != kTypeId || args->ctx->state != nullptr)
    return new XLA_FFI_Error{{XLA_FFI_Error_Code_INTERNAL, "the state is of another type, or set already"}};
  args->ctx->state = args->state;
  return nullptr;
}

XLA_FFI_Error* state_get(XLA_FFI_State_Get_Args* args) {
  if (args->type_id->type_id != kTypeId || args->ctx->state == nullptr)
    return new XLA_FFI_Error{{XLA_FFI_Error_Code_NOT_FOUND, "there is no such state"}};
  args->state = args->ctx->state;
  return nullptr;
}

XLA_FFI_Error* stream_get(XLA_FFI_Stream_Get_Args* args) {
  args->stream = args->ctx->stream;
  return nullptr;
}

XLA_FFI_Error* device_ordinal_get(XLA_FFI_DeviceOrdinal_Get_Args* args) {
  args->device_ordinal = args->ctx->device;
  return nullptr;
}

XLA_FFI_Error* future_create(XLA_FFI_Future_Create_Args* args) {
  args->future = new XLA_FFI_Future;
  return nullptr;
}

// The future may be deleted as soon as it is fulfilled.
XLA_FFI_Error* future_set_available(XLA_FFI_Future_SetAvailable_Args* args) {
  const auto fulfilment = args->future->fulfilment;
  fulfilment->set({});
  return nullptr;
}

XLA_FFI_Error* future_set_error(XLA_FFI_Future_SetError_Args* args) {
  const auto fulfilment = args->future->fulfilment;
  fulfilment->set(taken(args->error));
  return nullptr;
}

const XLA_FFI_Api& api() {
  static const XLA_FFI_Api one = [] {
    XLA_FFI_Api made{};
    made.struct_size = XLA_FFI_Api_STRUCT_SIZE;
    made.api_version = {XLA_FFI_Api_Version_STRUCT_SIZE, nullptr, XLA_FFI_API_MAJOR, XLA_FFI_API_MINOR};
    made.XLA_FFI_Error_Create = &error_create;
    made.XLA_FFI_Error_GetMessage = &error_get_message;
    made.XLA_FFI_Error_Destroy = &error_destroy;
    made.XLA_FFI_State_Set = &state_set;
    made.XLA_FFI_State_Get = &state_get;
    made.XLA_FFI_Stream_Get = &stream_get;
    made.XLA_FFI_DeviceOrdinal_Get = &device_ordinal_get;
    made.XLA_FFI_Future_Create = &future_create;
    made.XLA_FFI_Future_SetAvailable = &future_set_available;
    made.XLA_FFI_Future_SetError = &future_set_error;
    return made;
  }();
  return one;
}

/// Gives the type its number, as registering it does.
void register_type() { static_cast<XLA_FFI_TypeId*>(hora_jax_operation_id())->type_id = kTypeId; }

}  // namespace

/// Attributes as a call frame has them.
struct XlaAttrs {
  XlaAttributes given;
  std::vector<XLA_FFI_ByteSpan> spans;
  std::vector<XLA_FFI_Scalar> scalars;
  std::vector<XLA_FFI_Array> arrays;
  std::vector<XLA_FFI_ByteSpan> texts;
  std::vector<XLA_FFI_AttrType> types;
  std::vector<XLA_FFI_ByteSpan*> names;
  std::vector<void*> values;

  explicit XlaAttrs(XlaAttributes attributes) : given(std::move(attributes)) {
    for (auto* room : {&spans, &texts}) room->reserve(given.size());  // their addresses stay
    scalars.reserve(given.size());
    arrays.reserve(given.size());
    for (auto& [name, value] : given) {
      names.push_back(&spans.emplace_back(XLA_FFI_ByteSpan{name.data(), name.size()}));
      std::visit([this](auto& of) { add(of); }, value);
    }
  }
  XlaAttrs(const XlaAttrs&) = delete;

  void add(std::int32_t& value) { add(XLA_FFI_DataType_S32, &value); }
  void add(double& value) { add(XLA_FFI_DataType_F64, &value); }
  void add(XLA_FFI_DataType dtype, void* value) {
    types.push_back(XLA_FFI_AttrType_SCALAR);
    values.push_back(&scalars.emplace_back(XLA_FFI_Scalar{dtype, value}));
  }
  void add(std::string& text) {
    types.push_back(XLA_FFI_AttrType_STRING);
    values.push_back(&texts.emplace_back(XLA_FFI_ByteSpan{text.data(), text.size()}));
  }
  void add(std::vector<std::int64_t>& array) {
    types.push_back(XLA_FFI_AttrType_ARRAY);
    values.push_back(&arrays.emplace_back(XLA_FFI_Array{XLA_FFI_DataType_S64, array.size(), array.data()}));
  }
};

/// Tensors as a call frame has them. `Type`: XLA_FFI_ArgType or XLA_FFI_RetType.
template <typename Type>
struct XlaBuffers {
  std::vector<XlaTensor> tensors;
  std::vector<XLA_FFI_Buffer> buffers;
  std::vector<Type> types;
  std::vector<void*> pointers;

  void set(const std::vector<XlaTensor>& given, Type type) {
    tensors = given;
    for (auto& tensor : tensors) {
      buffers.push_back({XLA_FFI_Buffer_STRUCT_SIZE, nullptr, tensor.dtype, tensor.data,
                         static_cast<std::int64_t>(tensor.shape.size()), tensor.shape.data()});
      types.push_back(type);
    }
    for (auto& buffer : buffers) pointers.push_back(&buffer);
  }
};

/// A call frame, and all that it points to.
struct XlaExecution::Frame {
  explicit Frame(XlaAttributes given) : attributes(std::move(given)) {}

  XlaAttrs attributes;
  XlaBuffers<XLA_FFI_ArgType> inputs;
  XlaBuffers<XLA_FFI_RetType> outputs;
  XLA_FFI_ExecutionContext context;
  XLA_FFI_CallFrame frame{};
  XlaStatus at_once;
  std::unique_ptr<XLA_FFI_Future> future;

  void call(XLA_FFI_Handler* handler) {
    frame.args = {XLA_FFI_Args_STRUCT_SIZE, nullptr, static_cast<std::int64_t>(inputs.types.size()),
                  inputs.types.data(), inputs.pointers.data()};
    frame.rets = {XLA_FFI_Rets_STRUCT_SIZE, nullptr, static_cast<std::int64_t>(outputs.types.size()),
                  outputs.types.data(), outputs.pointers.data()};
    at_once = taken(handler(&frame));
    future.reset(std::exchange(frame.future, nullptr));
  }
};

XlaExecution::XlaExecution(std::unique_ptr<Frame> frame) : frame_(std::move(frame)) {}
XlaExecution::XlaExecution(XlaExecution&&) noexcept = default;
XlaExecution::~XlaExecution() {
  if (frame_) static_cast<void>(wait());
}

bool XlaExecution::has_ended() const {
  return !frame_->future || frame_->future->fulfilment->wait(std::chrono::seconds(0)).has_value();
}

XlaStatus XlaExecution::wait() const {
  if (!frame_->future) return frame_->at_once;
  const auto status = frame_->future->fulfilment->wait(std::chrono::seconds(20));
  if (status) return *status;
  ADD_FAILURE() << "the future has not been fulfilled";
  return {XLA_FFI_Error_Code_DEADLINE_EXCEEDED, "the future has not been fulfilled"};
}

std::thread::id XlaExecution::ended_by() const {
  if (!frame_->future) return {};
  const std::lock_guard lock(frame_->future->fulfilment->mutex);
  return frame_->future->fulfilment->by;
}

XlaCustomCall::XlaCustomCall(XlaAttributes attributes) : attributes_(std::move(attributes)) {
  register_type();
  const auto frame = make_frame(XLA_FFI_ExecutionStage_INSTANTIATE);
  frame->call(&hora_jax_instantiate);
  compiled_ = frame->at_once;
  state_ = frame->context.state;
}

XlaCustomCall::~XlaCustomCall() {
  if (state_ != nullptr) static_cast<XLA_FFI_TypeInfo*>(hora_jax_operation_info())->deleter(state_);
}

std::unique_ptr<XlaExecution::Frame> XlaCustomCall::make_frame(XLA_FFI_ExecutionStage stage) const {
  auto made = std::make_unique<XlaExecution::Frame>(attributes_);
  made->context.state = state_;
  XlaAttrs& given = made->attributes;
  made->frame.struct_size = XLA_FFI_CallFrame_STRUCT_SIZE;
  made->frame.api = &api();
  made->frame.ctx = &made->context;
  made->frame.stage = stage;
  made->frame.attrs = {XLA_FFI_Attrs_STRUCT_SIZE,
                       nullptr,
                       static_cast<std::int64_t>(given.types.size()),
                       given.types.data(),
                       given.names.data(),
                       given.values.data()};
  return made;
}

XlaExecution XlaCustomCall::execute(XLA_FFI_Handler* handler, std::unique_ptr<XlaExecution::Frame> frame,
                                    const std::vector<XlaTensor>& inputs,
                                    const std::vector<XlaTensor>& outputs) {
  frame->inputs.set(inputs, XLA_FFI_ArgType_BUFFER);
  frame->outputs.set(outputs, XLA_FFI_RetType_BUFFER);
  frame->call(handler);
  return XlaExecution(std::move(frame));
}

XlaExecution XlaCustomCall::execute_on_host(const std::vector<XlaTensor>& inputs,
                                            const std::vector<XlaTensor>& outputs) const {
  return execute(&hora_jax_execute_on_host, make_frame(XLA_FFI_ExecutionStage_EXECUTE), inputs, outputs);
}

XlaExecution XlaCustomCall::execute_on_gpu(const std::vector<XlaTensor>& inputs,
                                           const std::vector<XlaTensor>& outputs, void* stream,
                                           int device) const {
  auto frame = make_frame(XLA_FFI_ExecutionStage_EXECUTE);
  frame->context.stream = stream;
  frame->context.device = device;
  return execute(&hora_jax_execute_on_gpu, std::move(frame), inputs, outputs);
}

XlaHandlerTraits traits_of(XLA_FFI_Handler* handler) {
  register_type();
  XLA_FFI_Metadata metadata{};
  metadata.struct_size = XLA_FFI_Metadata_STRUCT_SIZE;
  XLA_FFI_Metadata_Extension extension{
      {XLA_FFI_Metadata_Extension_STRUCT_SIZE, XLA_FFI_Extension_Metadata, nullptr}, &metadata};
  XLA_FFI_CallFrame frame{};
  frame.struct_size = XLA_FFI_CallFrame_STRUCT_SIZE;
  frame.extension_start = &extension.extension_base;
  frame.api = &api();
  const XlaStatus status = taken(handler(&frame));
  EXPECT_TRUE(status.ok()) << status.message;
  return {metadata.api_version.major_version, metadata.api_version.minor_version,
          metadata.state_type_id.type_id};
}

std::string new_program() {
  static std::atomic<int> count{0};
  return "step#" + std::to_string(++count);
}

XlaAttributes sum_of(const std::string& program, const std::string& names) {
  return {{"operation", HORA_ALLREDUCE},
          {"names", names},
          {"program", program},
          {"process_set", 0},
          {"op", HORA_SUM},
          {"prescale", 1.0},
          {"postscale", 1.0},
          {"wire", HORA_FLOAT32},
          {"root", 0},
          {"rank", 0},
          {"ranks", 0},
          {"splits", std::vector<std::int64_t>{}}};
}

}  // namespace hora::jax
