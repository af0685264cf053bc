// A weight: the matrix of a linear map or the table of an embedding, and the form in which it is stored.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "heed/export.h"
#include "heed/nn/context.h"
#include "heed/ops/matmul.h"
#include "heed/tensor.h"

namespace HEED_API heed {

/// LoRA (Hu et al. 2021, "LoRA: low-rank adaptation of large language models"): adds scale * B A dropout(x)
/// to a linear map of x, whose weight is not changed; or, with in = V and out = D, scale * (B A)^T[ids] to
/// the rows of a table [V, D], without dropout, as PEFT does.
struct LoraAdapter {
  Tensor a;            // f32 [r, in]
  Tensor b;            // f32 [out, r]
  double scale = 1.0;  ///< alpha / r, or alpha / sqrt(r) (Kalajdzievski 2023, "Rank-stabilized LoRA")
  double dropout = 0.0;
  /// x [..., in], result [..., out].
  Tensor operator()(const Tensor& x) const;
  /// factor times the addition to the rows of `ids` i64 [...]; result [..., D]. The column of A of
  /// `padding_id` gets no gradient.
  Tensor rows(const Tensor& ids, double factor, std::optional<std::int64_t> padding_id) const;
};

/// While an object of this class exists, adapters drop out on this thread, with the context's generator.
/// Does nothing unless the context is training. Threads: each has its own.
class AdapterDropout {
 public:
  explicit AdapterDropout(const Context& context);
  ~AdapterDropout();
  static bool active();  ///< on this thread
  AdapterDropout(const AdapterDropout&) = delete;
  AdapterDropout& operator=(const AdapterDropout&) = delete;

 private:
  Generator* before_;
};

class PackedWeight;
struct TableRows;
struct Embedding;
struct Linear;

/// How a weight is stored: row by row as a tensor, or packed for matrix products.
enum class WeightForm { plain, packed };

/// What products with weights that are quantized to integers take. Rounded to int8, inputs give results that
/// are not those of the dequantized model, but as independent of the other rows and the threads: 32 to 128
/// numbers of a row, as many as share a scale of the weight, share one scale, their largest magnitude / 127.
/// Products that record a gradient are not rounded.
enum class Activations : std::uint8_t {
  automatic,  ///< int8 where that makes products of many rows faster on this processor
  f32,
  int8,
};

/// The first matrix product without a gradient packs a loaded weight (one thread packs, others wait) and
/// releases its pages of the file, so the weight is in memory once. Lookups then read rows of the packed
/// form. Both forms give the same bits.
///
/// The numbers can still be read through the tensor: to_vector(), item(), clone(), to() and saving read the
/// file again and do not change the form. A gradient, or data() or raw_data() of the tensor or of a view,
/// makes the weight plain permanently: the owner of the address may write at any time, and the next product
/// must use the new numbers. So a trained weight is plain, and so is one that was not loaded.
///
/// A quantized weight stays quantized in memory and in products. Its tensor has the dequantized numbers,
/// computed when they are read, with the same bits.
///
/// Copies of a Weight share one form, as tied weights do. Make one Weight of a tensor and copy it: two
/// Weights of one tensor would be packed twice. Threads: several may use one object, or its copies, at once
/// without gradients, the first use included; not while another adds or removes adapters or writes the
/// numbers.
class Weight {
 public:
  /// An undefined weight.
  Weight() = default;
  /// A tensor of any rank. One with more than two axes is a matrix of the first axis by the others.
  Weight(Tensor tensor);

  bool defined() const { return state_ != nullptr; }
  /// The numbers, and the leaf that gets the gradient; undefined for an undefined weight.
  const Tensor& tensor() const;
  /// The numbers as f32: a copy.
  Tensor dequantized() const;
  /// Whether products read the quantized blocks of the file: the weight is not trained, and the address of
  /// its numbers was never handed out.
  bool stays_quantized() const;
  const Shape& shape() const { return tensor().shape(); }
  std::int64_t size(int axis) const { return tensor().size(axis); }
  DType dtype() const { return tensor().dtype(); }
  WeightForm form() const;

  /// heed::linear(x, tensor(), bias, activation, layout); with adapters, activation(linear + their sum).
  Tensor linear(const Tensor& x, const Tensor& bias, Activation activation, WeightLayout layout) const;
  /// heed::embedding(tensor(), ids, scale, padding_id), plus what adapters of rows add.
  Tensor embedding(const Tensor& ids, double scale, std::optional<std::int64_t> padding_id) const;

  /// Replaces the numbers of all copies by others of the same shape. As with changed numbers, no other thread
  /// may use the weight meanwhile.
  void replace(Tensor tensor) const;
  /// Sets what linear() of all copies takes from now on (initially f32). Returns whether the weight is
  /// quantized to integers, so that this matters.
  bool use_activations(Activations type) const;
  /// Whether linear() by this layout rounds its input.
  bool takes_int8(WeightLayout layout) const;
  /// From now on, linear() of all copies calls `seen` with its input; an empty function ends this.
  void observe(std::function<void(const Tensor& x)> seen) const;

  /// Adds an adapter to linear(), of all copies; tensor() and embedding() do not see it. As with changed
  /// numbers, no other thread may use the weight meanwhile.
  void add_adapter(LoraAdapter adapter) const;
  /// The same for embedding(); tensor() and linear() do not see it.
  void add_row_adapter(LoraAdapter adapter) const;
  /// Both kinds.
  void remove_adapters() const;
  /// The adapters of linear(), in the order in which they were added. The weight must be defined.
  const std::vector<LoraAdapter>& adapters() const;
  /// The adapters of embedding().
  const std::vector<LoraAdapter>& row_adapters() const;

 private:
  friend struct RecurrentLayer;
  friend class StepLinear;
  friend std::vector<Tensor> linear_all(const Tensor& x, const std::vector<const Linear*>& maps);
  friend Tensor linear_chain(const Tensor& x, const Linear& first, Activation activation,
                             const Linear& second);
  friend std::optional<TableRows> rows_when_read(const Embedding& embedding, const Tensor& ids);
  struct State;
  // The packed form for an operation of x [..., in] with this weight [out, in]. If a gradient is recorded or
  // the weight must stay plain: null, and the packed form is freed.
  std::shared_ptr<const PackedWeight> packed_for(const Tensor& x) const;

  std::shared_ptr<State> state_;
};

}  // namespace heed
