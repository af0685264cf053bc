// The Tensor value type: creation, access, copies and conversion.
#include "heed/tensor.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <ostream>

#include "heed/threads.h"
#include "kernels/copy.h"
#include "tensor/impl.h"

namespace heed {
namespace {

TensorImpl& checked(const std::shared_ptr<TensorImpl>& impl) {
  if (!impl) throw Error("tensor: expected a tensor, got an undefined one");
  return *impl;
}

// A tensor's numbers for reading, which leaves lazy data as they are.
struct ReadableData {
  explicit ReadableData(const Tensor& t) {
    const Buffer& buffer = *TensorImpl::of(t).buffer;
    if (!buffer.is_materialized()) held = buffer.read();
    const std::byte* begin = held != nullptr ? held->data() : buffer.data();
    first = begin + static_cast<std::size_t>(t.offset()) * size_of(t.dtype());
  }
  std::shared_ptr<const Buffer> held;
  const std::byte* first;
};

void check_type(const Tensor& t, DType wanted) {
  if (t.dtype() == wanted) return;
  throw Error("tensor: expected " + std::string(name_of(wanted)) + ", got " + t.str() +
              " (convert with to())");
}

}  // namespace

Tensor Tensor::empty(const Shape& shape, DType dtype) {
  const auto count = static_cast<std::size_t>(shape.numel());
  std::size_t bytes = 0;
  if (__builtin_mul_overflow(count, size_of(dtype), &bytes)) {
    throw Error("tensor: expected a size that fits memory, got " + shape.str());
  }
  return from_buffer(Buffer::allocate(bytes), shape, dtype);
}

Tensor Tensor::zeros(const Shape& shape, DType dtype) {
  Tensor t = empty(shape, dtype);
  const std::size_t bytes = static_cast<std::size_t>(t.numel()) * size_of(dtype);
  parallel_for(static_cast<std::int64_t>(bytes), 1 << 18, [&](std::int64_t begin, std::int64_t end) {
    std::memset(t.raw_data() + begin, 0, static_cast<std::size_t>(end - begin));
  });
  return t;
}

Tensor Tensor::full(const Shape& shape, double value, DType dtype) {
  Tensor t = empty(shape, dtype);
  dispatch_all(dtype, [&]<class T>() {
    T element;
    if constexpr (std::is_same_v<T, bfloat16> || std::is_same_v<T, float16>) {
      element = T(static_cast<float>(value));
    } else {
      element = static_cast<T>(value);
    }
    std::fill_n(t.data<T>(), t.numel(), element);
  });
  return t;
}

template <class T>
Tensor Tensor::from(std::span<const T> values, const Shape& shape) {
  if (static_cast<std::int64_t>(values.size()) != shape.numel()) {
    throw Error("tensor: expected " + std::to_string(shape.numel()) + " values for shape " + shape.str() +
                ", got " + std::to_string(values.size()));
  }
  Tensor t = empty(shape, dtype_of<T>());
  if (!values.empty()) std::memcpy(t.raw_data(), values.data(), values.size() * sizeof(T));
  return t;
}

Tensor Tensor::from_buffer(std::shared_ptr<Buffer> buffer, const Shape& shape, DType dtype,
                           std::int64_t offset) {
  const std::int64_t end = offset + shape.numel();
  if (offset < 0 || static_cast<std::size_t>(end) > buffer->bytes() / size_of(dtype)) {
    throw Error("tensor: expected a buffer of " + std::to_string(end) + " elements of " +
                std::string(name_of(dtype)) + ", got " + std::to_string(buffer->bytes()) + " bytes");
  }
  auto impl = std::make_shared<TensorImpl>();
  impl->buffer = std::move(buffer);
  impl->shape = shape;
  impl->strides = contiguous_strides(shape);
  impl->offset = offset;
  impl->dtype = dtype;
  return Tensor(std::move(impl));
}

const Shape& Tensor::shape() const { return checked(impl_).shape; }
const Shape& Tensor::strides() const { return checked(impl_).strides; }
std::int64_t Tensor::offset() const { return checked(impl_).offset; }
std::int64_t Tensor::numel() const { return checked(impl_).shape.numel(); }
DType Tensor::dtype() const { return checked(impl_).dtype; }

bool Tensor::is_contiguous() const {
  const TensorImpl& t = checked(impl_);
  std::int64_t step = 1;
  for (int axis = t.shape.rank() - 1; axis >= 0; --axis) {
    if (t.shape[axis] != 1 && t.strides[axis] != step) return t.shape.numel() == 0;
    step *= t.shape[axis];
  }
  return true;
}

std::byte* Tensor::raw_data() const {
  const TensorImpl& t = checked(impl_);
  return t.buffer->data() + static_cast<std::size_t>(t.offset) * size_of(t.dtype);
}

template <class T>
T* Tensor::data() const {
  check_type(*this, dtype_of<T>());
  if (!is_contiguous()) throw Error("tensor: expected contiguous memory, got a view (call contiguous())");
  return reinterpret_cast<T*>(raw_data());
}

template <class T>
std::vector<T> Tensor::to_vector() const {
  check_type(*this, dtype_of<T>());
  const Tensor flat = detach().contiguous();
  const ReadableData read(flat);
  const T* values = reinterpret_cast<const T*>(read.first);
  return std::vector<T>(values, values + numel());
}

double Tensor::item() const {
  if (numel() != 1) throw Error("item: expected one element, got " + str());
  const Tensor wide = detach().to(DType::f64);
  return *reinterpret_cast<const double*>(ReadableData(wide).first);
}

Tensor Tensor::clone() const {
  Tensor copy = empty(shape(), dtype());
  const Buffer& buffer = *checked(impl_).buffer;
  const std::shared_ptr<const Buffer::Source> source = buffer.source();
  if (source != nullptr && is_contiguous() &&
      buffer.bytes() == static_cast<std::size_t>(numel()) * size_of(dtype())) {
    source->write(copy.raw_data());
  } else {
    copy.copy_from(*this);
  }
  return copy;
}

Tensor Tensor::contiguous() const {
  if (is_contiguous()) return *this;
  Tensor copy = clone();
  if (needs_gradient({*this})) {
    record(copy, "contiguous", {*this}, [](const Tensor& dy) { return std::vector<Tensor>{dy}; });
  }
  return copy;
}

Tensor Tensor::as_strided(const Shape& shape, const Shape& strides, std::int64_t offset) const {
  const TensorImpl& t = checked(impl_);
  auto impl = std::make_shared<TensorImpl>();
  impl->buffer = t.buffer;
  impl->shape = shape;
  impl->strides = strides;
  impl->offset = offset;
  impl->dtype = t.dtype;
  return Tensor(std::move(impl));
}

Tensor Tensor::detach() const { return as_strided(shape(), strides(), offset()); }

Tensor Tensor::to(DType target) const {
  if (target == dtype()) return *this;
  const Tensor source = detach().contiguous();
  Tensor result = empty(shape(), target);
  kernels::convert(source.dtype(), ReadableData(source).first, target, result.raw_data(), numel());
  if (is_floating(target) && needs_gradient({*this})) {
    record(result, "to", {*this},
           [from = gradient_dtype(dtype())](const Tensor& dy) { return std::vector<Tensor>{dy.to(from)}; });
  }
  return result;
}

namespace {

// A tensor's numbers, to be converted.
struct Unconverted : Buffer::Source {
  Tensor source;
  DType dtype = DType::f32;
  void write(std::byte* to) const override {
    kernels::convert(source.dtype(), ReadableData(source).first, dtype, to, source.numel());
    TensorImpl::of(source).buffer->release_pages();
  }
};

}  // namespace

Tensor Tensor::to_lazy(DType target) const {
  if (target == dtype()) return detach();
  auto source = std::make_shared<Unconverted>();
  source->source = detach().contiguous();
  source->dtype = target;
  return from_buffer(Buffer::lazy(static_cast<std::size_t>(numel()) * size_of(target), std::move(source)),
                     shape(), target);
}

Tensor unwidened(const Tensor& tensor) {
  const auto source = std::dynamic_pointer_cast<const Unconverted>(TensorImpl::of(tensor).buffer->source());
  const bool widens =
      source != nullptr && source->dtype == DType::f32 && size_of(source->source.dtype()) == 2;
  return widens ? source->source : Tensor();
}

void Tensor::copy_from(const Tensor& source) const {
  if (shape() != source.shape()) {
    throw Error("copy: expected shape " + shape().str() + ", got " + source.shape().str());
  }
  if (source.dtype() != dtype() && is_contiguous()) {
    const Tensor dense = source.detach().contiguous();
    return kernels::convert(source.dtype(), ReadableData(dense).first, dtype(), raw_data(), numel());
  }
  const Tensor from = source.detach().to(dtype());
  kernels::StridedCopy copy;
  copy.rank = rank();
  std::copy(shape().begin(), shape().end(), copy.sizes.begin());
  std::copy(from.strides().begin(), from.strides().end(), copy.src_strides.begin());
  std::copy(strides().begin(), strides().end(), copy.dst_strides.begin());
  kernels::copy_strided(ReadableData(from).first, raw_data(), copy, size_of(dtype()));
}

DType gradient_dtype(DType dtype) { return dtype == DType::bf16 || dtype == DType::f16 ? DType::f32 : dtype; }

void set_data(const Tensor& leaf, const Tensor& source) {
  TensorImpl& t = TensorImpl::of(leaf);
  HEED_ASSERT(t.node == nullptr && is_floating(source.dtype()) && leaf.shape() == source.shape(),
              "data for a leaf");
  t.buffer = TensorImpl::of(source).buffer;
  t.strides = source.strides();
  t.offset = source.offset();
  t.dtype = source.dtype();
}

bool Tensor::requires_grad() const {
  const TensorImpl& t = checked(impl_);
  return t.requires_grad || t.node != nullptr;
}

Tensor& Tensor::set_requires_grad(bool value) {
  TensorImpl& t = checked(impl_);
  if (t.node)
    throw Error("set_requires_grad: expected a leaf, got the result of " + std::string(t.node->operation));
  if (value && !is_floating(t.dtype))
    throw Error("set_requires_grad: expected a floating type, got " + str());
  t.requires_grad = value;
  return *this;
}

Tensor Tensor::grad() const { return checked(impl_).grad; }

void Tensor::set_grad(const Tensor& gradient) const {
  if (gradient.defined() && (gradient.shape() != shape() || !may_be_gradient(dtype(), gradient.dtype()))) {
    throw Error("set_grad: expected " + str() + ", got " + gradient.str());
  }
  checked(impl_).grad = gradient;
}

void Tensor::zero_grad() const { checked(impl_).grad = {}; }

namespace {

// Writes the elements of a tensor as nested lists, the last axis on one line.
class ElementWriter {
 public:
  ElementWriter(std::ostream& out, const Tensor& tensor)
      : out_(out), tensor_(tensor), data_(tensor), abbreviates_(tensor.numel() > kMostWhole) {}

  void write(int axis, std::int64_t offset) {
    if (axis == tensor_.rank()) return write_element(offset);
    const std::int64_t n = tensor_.size(axis), step = tensor_.strides()[axis];
    const std::string between = axis + 1 == tensor_.rank() ? ", " : ",\n" + std::string(axis + 1U, ' ');
    out_ << '[';
    for (std::int64_t i = 0; i < n; ++i) {
      if (i > 0) out_ << between;
      if (abbreviates_ && n > 2 * kEdge && i == kEdge) {
        out_ << "..." << between;
        i = n - kEdge;
      }
      write(axis + 1, offset + i * step);
    }
    out_ << ']';
  }

 private:
  static constexpr std::int64_t kMostWhole = 1000, kEdge = 3;

  void write_element(std::int64_t offset) {
    dispatch_all(tensor_.dtype(), [&]<class T>() {
      const T value = reinterpret_cast<const T*>(data_.first)[offset];
      if constexpr (std::is_same_v<T, bool>) {
        out_ << (value ? "true" : "false");
      } else if constexpr (std::is_integral_v<T>) {
        out_ << std::to_string(value);
      } else {
        using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;
        char text[32];
        std::snprintf(text, sizeof text, "%g", static_cast<double>(static_cast<Wide>(value)));
        out_ << text;
      }
    });
  }

  std::ostream& out_;
  const Tensor& tensor_;
  ReadableData data_;
  bool abbreviates_;
};

}  // namespace

std::ostream& operator<<(std::ostream& out, const Tensor& tensor) {
  out << tensor.str();
  if (!tensor.defined()) return out;
  out << (tensor.rank() > 1 ? '\n' : ' ');
  ElementWriter(out, tensor).write(0, 0);
  return out;
}

std::string Tensor::str() const {
  return defined() ? std::string(name_of(dtype())) + shape().str() : "an undefined tensor";
}

#define HEED_TENSOR_ACCESS(T)                           \
  template T* Tensor::data<T>() const;                  \
  template std::vector<T> Tensor::to_vector<T>() const; \
  template Tensor Tensor::from<T>(std::span<const T> values, const Shape& shape);
HEED_TENSOR_ACCESS(double)
HEED_TENSOR_ACCESS(float)
HEED_TENSOR_ACCESS(bfloat16)
HEED_TENSOR_ACCESS(float16)
HEED_TENSOR_ACCESS(std::int64_t)
HEED_TENSOR_ACCESS(std::int32_t)
HEED_TENSOR_ACCESS(std::uint8_t)
HEED_TENSOR_ACCESS(bool)
#undef HEED_TENSOR_ACCESS

}  // namespace heed
