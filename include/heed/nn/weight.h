// A weight: the matrix of a linear map or the table of an embedding, and the form in which it is stored.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "heed/export.h"
#include "heed/nn/lora.h"
#include "heed/ops/matmul.h"
#include "heed/tensor.h"

namespace HEED_API heed {

class PackedWeight;
struct Linear;

/// How a weight is stored: row by row as a tensor, or packed for matrix products.
enum class WeightForm { plain, packed };

/// A weight that was loaded is packed by the first matrix product without a gradient, by one thread while
/// others wait, and its pages of the file are released: it is held once. Lookups then read rows of the packed
/// form. The results are the same bits in either form.
///
/// The numbers stay readable as the tensor: to_vector(), item(), clone(), to() and saving read the file again
/// and change no form. Only a gradient, or data() or raw_data() of the tensor or of a view, makes the weight
/// plain for good: whoever has the address may write at any time, and the next product must see it. So a
/// trained weight is plain, and so is one that was not loaded.
///
/// A quantized weight is packed and read as such, and held once; as a tensor it has its dequantized numbers,
/// computed when they are read, with the same bits.
///
/// Copies of a Weight share one form, as tied weights do. Make one Weight of a tensor and copy that: two made
/// of one tensor would be packed twice.
/// Threads: several may use one object, or its copies, at once without gradients, the first use included; not
/// while another adds or removes adapters or writes the numbers.
class Weight {
 public:
  /// An undefined weight.
  Weight() = default;
  /// Of any rank; what has more than two axes is a matrix of the first axis by the others.
  Weight(Tensor tensor);

  bool defined() const { return state_ != nullptr; }
  /// The numbers, and the leaf that gets the gradient; undefined for an undefined weight.
  const Tensor& tensor() const;
  /// The numbers as f32 in memory of their own: a copy.
  Tensor dequantized() const;
  /// Whether products read the blocks of a few bits that a file holds: the weight is not trained, and nobody
  /// has asked for the address of its numbers.
  bool stays_quantized() const;
  const Shape& shape() const { return tensor().shape(); }
  std::int64_t size(int axis) const { return tensor().size(axis); }
  DType dtype() const { return tensor().dtype(); }
  WeightForm form() const;

  /// heed::linear(x, tensor(), bias, activation, layout); with adapters, activation(linear + their sum).
  Tensor linear(const Tensor& x, const Tensor& bias, Activation activation, WeightLayout layout) const;
  /// heed::embedding(tensor(), ids, scale, padding_id), plus what adapters of rows add.
  Tensor embedding(const Tensor& ids, double scale, std::optional<std::int64_t> padding_id) const;

  /// Puts other numbers, of the same shape, in the place of these, of all copies. As with changed numbers, no
  /// other thread may use the weight meanwhile.
  void replace(Tensor tensor) const;
  /// Has linear() of all copies, while no gradient is recorded, round its input to int8 (32 to 128
  /// numbers share a scale) where the weight stays quantized to integers, or take it as it is. Returns
  /// whether that changes products.
  bool use_int8_activations(bool use) const;
  /// Has linear() of all copies call `seen` with its input from now on; an empty function ends that.
  void observe(std::function<void(const Tensor& x)> seen) const;

  /// Adds an adapter to linear(), of all copies; tensor() and embedding() do not see it. As with changed
  /// numbers, no other thread may use the weight meanwhile.
  void add_adapter(LoraAdapter adapter) const;
  /// The same for embedding(); tensor() and linear() do not see it.
  void add_row_adapter(LoraAdapter adapter) const;
  /// Both kinds.
  void remove_adapters() const;
  /// Those of linear(), in the order in which they were added. The weight must be defined.
  const std::vector<LoraAdapter>& adapters() const;
  /// Those of embedding().
  const std::vector<LoraAdapter>& row_adapters() const;

 private:
  friend struct RecurrentLayer;
  friend class StepLinear;
  friend std::vector<Tensor> linear_all(const Tensor& x, const std::vector<const Linear*>& maps);
  struct State;
  // What an operation of x [..., in] with this weight [out, in] gets besides tensor(): the packed form; or,
  // where a gradient is recorded or the weight must stay plain, null, and the packed form is freed.
  std::shared_ptr<const PackedWeight> packed_for(const Tensor& x) const;

  std::shared_ptr<State> state_;
};

}  // namespace heed
