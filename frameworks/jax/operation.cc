// SPDX-License-Identifier: Apache-2.0
#include "frameworks/jax/operation.h"

#include "frameworks/jax/operation_names.h"

#include <algorithm>
#include <optional>
#include <sstream>
#include <string_view>
#include <utility>

namespace hora::jax {
namespace {

namespace ffi = ::xla::ffi;

/// Hora's dtype for one of XLA; none if Hora has no such.
std::optional<hora_dtype> dtype_of(ffi::DataType given) {
  switch (given) {
    case ffi::DataType::PRED: return HORA_BOOL;
    case ffi::DataType::S8: return HORA_INT8;
    case ffi::DataType::S16: return HORA_INT16;
    case ffi::DataType::S32: return HORA_INT32;
    case ffi::DataType::S64: return HORA_INT64;
    case ffi::DataType::U8: return HORA_UINT8;
    case ffi::DataType::U16: return HORA_UINT16;
    case ffi::DataType::U32: return HORA_UINT32;
    case ffi::DataType::U64: return HORA_UINT64;
    case ffi::DataType::F16: return HORA_FLOAT16;
    case ffi::DataType::BF16: return HORA_BFLOAT16;
    case ffi::DataType::F32: return HORA_FLOAT32;
    case ffi::DataType::F64: return HORA_FLOAT64;
    case ffi::DataType::C64: return HORA_COMPLEX64;
    case ffi::DataType::C128: return HORA_COMPLEX128;
    case ffi::DataType::F8E4M3FN: return HORA_FLOAT8_E4M3FN;
    case ffi::DataType::F8E4M3FNUZ: return HORA_FLOAT8_E4M3FNUZ;
    case ffi::DataType::F8E5M2: return HORA_FLOAT8_E5M2;
    case ffi::DataType::F8E5M2FNUZ: return HORA_FLOAT8_E5M2FNUZ;
    case ffi::DataType::F8E8M0FNU: return HORA_FLOAT8_E8M0FNU;
    default: return std::nullopt;
  }
}

ffi::ErrorCode code_of(int code) {
  switch (code) {
    case HORA_INVALID_ARGUMENT: return ffi::ErrorCode::kInvalidArgument;
    case HORA_ABORTED:
    case HORA_GENERATION_ENDED: return ffi::ErrorCode::kAborted;
    case HORA_TIMEOUT: return ffi::ErrorCode::kDeadlineExceeded;
    case HORA_UNAVAILABLE: return ffi::ErrorCode::kUnavailable;
    default: return ffi::ErrorCode::kInternal;
  }
}

OperationNames& operation_names() {
  static OperationNames& one = *new OperationNames;  // programs may be compiled until the process ends
  return one;
}

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  std::istringstream stream{std::string(text)};
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

/// Reads attributes one after the other, until one is missing.
class Reader {
 public:
  explicit Reader(ffi::Dictionary attributes) : attributes_(attributes) {}

  template <typename T>
  T read(std::string_view name) {
    auto found = attributes_.get<T>(name);
    if (found.has_value()) return *found;
    if (error_.failure()) return {};
    error_ = ffi::Error::InvalidArgument("hora: attribute '" + std::string(name) +
                                         "': " + found.error().message());
    return {};
  }
  template <typename Enumerator>
  Enumerator enumerator(std::string_view name) {
    return static_cast<Enumerator>(read<std::int32_t>(name));
  }
  [[nodiscard]] const ffi::Error& error() const { return error_; }

 private:
  ffi::Dictionary attributes_;
  ffi::Error error_;
};

}  // namespace

ffi::TypeId Operation::id{};
ffi::TypeInfo Operation::info = ffi::MakeTypeInfo<Operation>();

ffi::ErrorOr<std::unique_ptr<Operation>> Operation::make(ffi::Dictionary attributes) {
  std::unique_ptr<Operation> made(new Operation);
  Reader reader(attributes);
  made->common_.operation = reader.enumerator<hora_operation>("operation");
  made->common_.process_set = reader.read<std::int32_t>("process_set");
  made->common_.op = reader.enumerator<hora_reduce_op>("op");
  made->common_.prescale = reader.read<double>("prescale");
  made->common_.postscale = reader.read<double>("postscale");
  made->common_.wire = reader.enumerator<hora_dtype>("wire");
  made->common_.root = reader.read<std::int32_t>("root");
  made->ranks_ = reader.read<std::int32_t>("ranks");
  made->rank_ = reader.read<std::int32_t>("rank");
  const auto splits = reader.read<ffi::Span<const std::int64_t>>("splits");
  const std::string program(reader.read<std::string_view>("program"));
  const auto names = lines_of(reader.read<std::string_view>("names"));
  if (reader.error().failure()) return ffi::Unexpected(reader.error());
  if (splits.size() > 0) {  // hora_submit reads as many as a process set of this number has ranks now
    made->splits_.assign(splits.begin(), splits.end());
    made->splits_.resize(std::max<std::size_t>(splits.size(), static_cast<std::size_t>(made->ranks_)));
  }
  for (const auto& name : names) made->names_.push_back(operation_names().make(program, name));
  return made;
}

ffi::ErrorOr<std::vector<hora_handle*>> Operation::submit(ffi::RemainingArgs inputs,
                                                          ffi::RemainingRets outputs,
                                                          const Place& place) const {
  if (inputs.size() != names_.size() || outputs.size() != names_.size()) {
    return ffi::Unexpected(ffi::Error::InvalidArgument(
        "hora: " + std::to_string(names_.size()) + " names for " + std::to_string(inputs.size()) +
        " inputs and " + std::to_string(outputs.size()) + " outputs"));
  }
  std::vector<hora_entry> entries(names_.size(), common_);
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const auto input = inputs.get<ffi::AnyBuffer>(i);
    auto output = outputs.get<ffi::AnyBuffer>(i);
    if (!input.has_value()) return ffi::Unexpected(input.error());
    if (!output.has_value()) return ffi::Unexpected(output.error());
    const auto dtype = dtype_of(input->element_type());
    if (!dtype) {
      return ffi::Unexpected(ffi::Error::InvalidArgument("'" + names_[i] + "': Hora has no such dtype"));
    }
    hora_entry& entry = entries[i];
    entry.name = names_[i].c_str();
    entry.input = input->untyped_data();
    entry.output = (*output)->untyped_data();
    entry.shape = input->dimensions().begin();
    entry.dimensions = static_cast<int>(input->dimensions().size());
    entry.dtype = *dtype;
    entry.splits = splits_.empty() ? nullptr : splits_.data();
    if ((*output)->dimensions().size() > 0) entry.output_rows = (*output)->dimensions().front();
    entry.device = place.device;
    entry.device_index = place.index;
    entry.stream = place.stream;
  }
  if (hora_is_initialized() == 0)
    return ffi::Unexpected(ffi::Error(ffi::ErrorCode::kFailedPrecondition,
                                      "this process is in no job: call hora.jax.init() first"));
  if (ranks_ != 0 && (ranks_ != hora_size() || rank_ != hora_rank())) {
    return ffi::Unexpected(ffi::Error(
        ffi::ErrorCode::kFailedPrecondition,
        "'" + names_.front() + "': this program was compiled for " + "rank " + std::to_string(rank_) +
            " of " + std::to_string(ranks_) + ", and this is rank " + std::to_string(hora_rank()) + " of " +
            std::to_string(hora_size()) + ": call jax.clear_caches() after init()"));
  }
  std::vector<hora_handle*> handles(entries.size());
  const int code = hora_submit(entries.data(), static_cast<int>(entries.size()), handles.data());
  if (code != HORA_OK) return ffi::Unexpected(error_of(code, hora_last_error()));
  return handles;
}

ffi::Error error_of(int code, std::string message) { return {code_of(code), std::move(message)}; }

}  // namespace hora::jax
