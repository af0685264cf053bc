// Packed matrices on CPUs. The packed form of w [n, k] is n / nr panels (the last one filled up with zeros),
// each [k, nr]: what one step along k needs lies together, and a panel is read from its first byte to its
// last.
#pragma once

#include <optional>

#include "heed/buffer.h"
#include "kernels/cpu/block_panels.h"
#include "kernels/gemm.h"

namespace heed::kernels {

class PackedMatrix {
 public:
  PackedMatrix(DType dtype, std::int64_t n, std::int64_t k, Kept kept)
      : dtype_(dtype),
        panel_bytes_(kNr * k * static_cast<std::int64_t>(size_of(dtype))),
        panels_(memory(n, kept)) {}
  /// In blocks of this form.
  PackedMatrix(const BlockForm& form, std::int64_t n, std::int64_t k)
      : form_(form), panel_bytes_(k / form.numbers * form.bytes()), panels_(memory(n, Kept::lastingly)) {}
  /// The form of its blocks, if it is in blocks; else it has numbers of dtype().
  const std::optional<BlockForm>& form() const { return form_; }
  DType dtype() const { return dtype_; }
  /// Panels of T, which must be the type of dtype().
  template <class T>
  T* panels() const {
    return reinterpret_cast<T*>(panels_->data());
  }
  std::int64_t panel_bytes() const { return panel_bytes_; }
  std::byte* panel(std::int64_t i) const { return panels_->data() + i * panel_bytes_; }

 private:
  std::shared_ptr<Buffer> memory(std::int64_t n, Kept kept) const {
    const auto bytes = static_cast<std::size_t>((n + kNr - 1) / kNr * panel_bytes_);
    return kept == Kept::lastingly ? Buffer::allocate_side_by_side(bytes) : Buffer::allocate(bytes);
  }

  DType dtype_ = DType::f32;
  std::optional<BlockForm> form_;
  std::int64_t panel_bytes_;
  std::shared_ptr<Buffer> panels_;
};

/// Stands for the type of the numbers of a matrix in blocks.
struct Blocks {};

/// A StridedMatrix with its type.
template <class T>
struct Strided {
  const T* data = nullptr;
  std::int64_t row = 0;
  std::int64_t column = 1;
  Strided() = default;
  Strided(const T* numbers, std::int64_t row_stride, std::int64_t column_stride)
      : data(numbers), row(row_stride), column(column_stride) {}
  explicit Strided(const StridedMatrix& m) : Strided(static_cast<const T*>(m.data), m.row, m.column) {}
};

/// A StoredMatrix with its type; `panels` are null where it is not packed.
template <class T>
struct Stored {
  const T* panels = nullptr;
  Strided<T> strided{};
  bool is_packed() const { return panels != nullptr; }
};
template <>
struct Stored<Blocks> {
  const PackedMatrix* panels = nullptr;
  static constexpr bool is_packed() { return true; }
};

/// Calls fn with the Stored<T> of a matrix. Every kernel for stored matrices learns their type and form here.
template <class Fn>
void dispatch_stored(const StoredMatrix& w, Fn&& fn) {
  const auto call = [&]<class T>() {
    if (w.packed != nullptr) return fn(Stored<T>{w.packed->panels<T>()});
    fn(Stored<T>{nullptr, Strided<T>(w.strided)});
  };
  if (w.packed != nullptr && w.packed->form()) return fn(Stored<Blocks>{w.packed});
  switch (w.packed != nullptr ? w.packed->dtype() : w.strided.dtype) {
    case DType::f32: return call.template operator()<float>();
    case DType::bf16: return call.template operator()<bfloat16>();
    case DType::f16: return call.template operator()<float16>();
    default: HEED_ASSERT(false, "a stored matrix of another type");
  }
}

}  // namespace heed::kernels
