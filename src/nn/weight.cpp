// Which form of a weight an operation gets, and when it changes.
#include "heed/nn/weight.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "core/fork_safe_mutex.h"
#include "heed/autograd.h"
#include "heed/nn/linear.h"
#include "heed/ops/activation.h"
#include "heed/ops/elementwise.h"
#include "heed/ops/embedding.h"
#include "heed/ops/matmul.h"
#include "heed/ops/shape.h"
#include "kernels/machine.h"
#include "nn/lookups.h"
#include "ops/weight_product.h"
#include "tensor/impl.h"
#include "tensor/quantized_matrix.h"

namespace heed {

struct Weight::State {
  Tensor tensor;
  ForkSafeMutex mutex;
  std::shared_ptr<const PackedWeight> packed;
  std::vector<LoraAdapter> adapters, row_adapters;
  std::function<void(const Tensor&)> observer;
  Activations activations = Activations::f32;

  const Buffer& buffer() const { return *TensorImpl::of(tensor).buffer; }

  // True if the weight was loaded whole and no address of it has been handed out.
  bool can_repack() const {
    const bool matrix = tensor.rank() >= 2 && tensor.numel() > 0 && is_floating(tensor.dtype()) &&
                        tensor.dtype() != DType::f64;
    return matrix && !buffer().is_materialized() && tensor.is_contiguous() && tensor.offset() == 0 &&
           static_cast<std::size_t>(tensor.numel()) * size_of(tensor.dtype()) == buffer().bytes();
  }

  Tensor matrix() const {
    if (tensor.rank() <= 2) return tensor;
    return reshape(tensor, {tensor.size(0), tensor.numel() / std::max<std::int64_t>(tensor.size(0), 1)});
  }

  std::shared_ptr<const PackedWeight> pack(WeightLayout wanted) {
    const std::lock_guard lock(mutex);
    return pack_locked(wanted);
  }

  // The packed form, or null where the weight must stay plain.
  std::shared_ptr<const PackedWeight> pack_locked(WeightLayout wanted) {
    if (!can_repack()) {
      packed.reset();
    } else if (packed == nullptr) {
      packed = std::make_shared<PackedWeight>(matrix(), wanted);
      buffer().release_pages();
    }
    return packed != nullptr && packed->layout() == wanted ? packed : nullptr;
  }

  // Whether maps of x read stored numbers alone: without adapters and gradients.
  bool is_read_by(const Tensor& x, const Tensor& bias) const {
    return adapters.empty() && x.dtype() == DType::f32 && !needs_gradient({x, tensor, bias});
  }

  bool has_integers() const {
    const auto quantized = quantized_of(tensor);
    return quantized != nullptr && quantized->has_integers();
  }

  bool takes_int8(const PackedWeight* form) const {
    return activations == Activations::int8 || (activations == Activations::automatic && form != nullptr &&
                                                kernels::int8_is_faster(*form->matrix()));
  }

  // The map without adapters and gradients.
  StoredLinear stored(const Linear& map, const PackedWeight* form, Activation activation) const {
    return {matrix(), form, map.bias, activation, map.layout, takes_int8(form)};
  }

  // The map without adapters.
  Tensor linear(const Tensor& x, const Tensor& bias, Activation activation, WeightLayout wanted);

  // What lookups without gradients read: the packed form, or, where that is null, the rows of a file in
  // place. None where they read the tensor.
  std::optional<std::shared_ptr<const PackedWeight>> read_rows();
  // The rows without adapters.
  Tensor embedding(const Tensor& ids, double scale, std::optional<std::int64_t> padding_id);

  bool stays_quantized() const { return !tensor.requires_grad() && quantized_of(tensor) != nullptr; }

  // Frees the packed form before the address of the numbers is handed out.
  void unpack() {
    const std::lock_guard lock(mutex);
    packed.reset();
  }
};

Weight::Weight(Tensor tensor) {
  if (!tensor.defined()) return;
  state_ = std::make_shared<State>();
  state_->tensor = std::move(tensor);
}

const Tensor& Weight::tensor() const {
  static const Tensor undefined;
  return defined() ? state_->tensor : undefined;
}

Tensor Weight::dequantized() const {
  if (!defined()) return {};
  if (state_->tensor.rank() == 2 && stays_quantized()) {
    if (const auto form = state_->pack(WeightLayout::out_in)) return form->dequantized();
  }
  return tensor().detach().to(DType::f32).clone();
}

bool Weight::stays_quantized() const { return defined() && state_->stays_quantized(); }

WeightForm Weight::form() const {
  if (!defined()) return WeightForm::plain;
  const std::lock_guard lock(state_->mutex);
  return state_->packed != nullptr && state_->can_repack() ? WeightForm::packed : WeightForm::plain;
}

Tensor Weight::linear(const Tensor& x, const Tensor& bias, Activation activation, WeightLayout layout) const {
  if (!defined()) throw Error("linear: expected a weight, got an undefined one");
  if (state_->observer) state_->observer(x);
  if (!state_->adapters.empty()) {
    Tensor sum = state_->linear(x, bias, Activation::none, layout);
    for (const LoraAdapter& adapter : state_->adapters) sum = sum + adapter(x);
    return activate(sum, activation);
  }
  return state_->linear(x, bias, activation, layout);
}

Tensor Weight::State::linear(const Tensor& x, const Tensor& bias, Activation activation,
                             WeightLayout wanted) {
  if (x.dtype() == DType::f32 && !needs_gradient({x, tensor, bias})) {
    const auto form = pack(wanted);
    return stored_linears(x, {{matrix(), form.get(), bias, activation, wanted, takes_int8(form.get())}})
        .front();
  }
  if (x.dtype() == DType::f32 && stays_quantized()) {
    if (auto form = pack(wanted))
      return frozen_linear(x, matrix(), std::move(form), bias, activation, wanted);
  }
  unpack();
  return heed::linear(x, matrix(), bias, activation, wanted);
}

std::vector<Tensor> linear_all(const Tensor& x, const std::vector<const Linear*>& maps) {
  const auto is_stored = [&](const Linear* map) {
    return map->weight.defined() && map->weight.state_->is_read_by(x, map->bias);
  };
  std::vector<Tensor> results;
  if (!std::all_of(maps.begin(), maps.end(), is_stored)) {
    for (const Linear* map : maps) results.push_back((*map)(x));
    return results;
  }
  std::vector<std::shared_ptr<const PackedWeight>> forms;
  std::vector<StoredLinear> stored;
  for (const Linear* map : maps) {
    Weight::State& state = *map->weight.state_;
    if (state.observer) state.observer(x);
    forms.push_back(state.pack(map->layout));
    stored.push_back(state.stored(*map, forms.back().get(), Activation::none));
  }
  return stored_linears(x, stored);
}

Tensor linear_chain(const Tensor& x, const Linear& first, Activation activation, const Linear& second) {
  const auto is_stored = [&](const Linear& map) {
    return map.weight.defined() && map.weight.state_->is_read_by(x, map.bias);
  };
  if (!is_stored(first) || !is_stored(second) || second.weight.state_->observer)
    return second(first(x, activation));
  Weight::State &up = *first.weight.state_, &down = *second.weight.state_;
  if (up.observer) up.observer(x);
  const auto up_form = up.pack(first.layout), down_form = down.pack(second.layout);
  return stored_chain(x, up.stored(first, up_form.get(), activation),
                      down.stored(second, down_form.get(), Activation::none));
}

void Weight::replace(Tensor tensor) const {
  HEED_ASSERT(tensor.shape() == shape(), "numbers of the same shape");
  state_->unpack();
  state_->tensor = std::move(tensor);
}

void Weight::observe(std::function<void(const Tensor& x)> seen) const { state_->observer = std::move(seen); }

bool Weight::use_activations(Activations type) const {
  state_->activations = type;
  return state_->has_integers();
}

bool Weight::takes_int8(WeightLayout layout) const {
  if (state_->activations == Activations::f32 || !state_->has_integers()) return false;
  return state_->takes_int8(state_->pack(layout).get());
}

void Weight::add_adapter(LoraAdapter adapter) const { state_->adapters.push_back(std::move(adapter)); }
void Weight::add_row_adapter(LoraAdapter adapter) const {
  state_->row_adapters.push_back(std::move(adapter));
}
void Weight::remove_adapters() const {
  state_->adapters.clear();
  state_->row_adapters.clear();
}
const std::vector<LoraAdapter>& Weight::adapters() const { return state_->adapters; }
const std::vector<LoraAdapter>& Weight::row_adapters() const { return state_->row_adapters; }

std::shared_ptr<const PackedWeight> Weight::packed_for(const Tensor& x) const {
  if (!defined()) return nullptr;
  if (x.defined() && x.dtype() == DType::f32 && !needs_gradient({x, state_->tensor})) {
    auto form = state_->pack(WeightLayout::out_in);
    if (form == nullptr || !form->reorders_columns()) return form;
  }
  state_->unpack();
  return nullptr;
}

Tensor Weight::embedding(const Tensor& ids, double scale, std::optional<std::int64_t> padding_id) const {
  if (!defined()) throw Error("embedding: expected a table, got an undefined one");
  Tensor sum = state_->embedding(ids, scale, padding_id);
  for (const LoraAdapter& adapter : state_->row_adapters) sum = sum + adapter.rows(ids, scale, padding_id);
  return sum;
}

std::optional<std::shared_ptr<const PackedWeight>> Weight::State::read_rows() {
  if (tensor.rank() != 2 || needs_gradient({tensor})) return {};
  const std::lock_guard lock(mutex);
  // What must be converted is: an output projection often shares the table. A file's rows are read in place.
  if (packed != nullptr || buffer().is_unwritten()) {
    if (auto form = pack_locked(WeightLayout::out_in)) return form;
  } else if (can_repack()) {
    return nullptr;
  }
  return {};
}

std::optional<TableRows> rows_when_read(const Embedding& embedding, const Tensor& ids) {
  Weight::State& state = *embedding.table.state_;
  auto rows = state.row_adapters.empty() ? state.read_rows() : std::nullopt;
  if (!rows || (*rows != nullptr && (*rows)->reorders_columns())) return {};
  return table_rows(state.tensor, std::move(*rows), ids, embedding.scale);
}

Tensor Weight::State::embedding(const Tensor& ids, double scale, std::optional<std::int64_t> padding_id) {
  if (auto rows = read_rows()) return stored_embedding(tensor, std::move(*rows), ids, scale);
  unpack();
  return heed::embedding(tensor, ids, scale, padding_id);
}

// Low-rank additions to linear maps and embedding tables.

namespace {

thread_local Generator* dropout_generator = nullptr;

}  // namespace

Tensor LoraAdapter::operator()(const Tensor& x) const {
  const bool drops = dropout > 0.0 && dropout_generator != nullptr;
  const Tensor input = drops ? heed::dropout(x, dropout, dropout_generator->next()) : x;
  return linear(linear(input, a) * scale, b);
}

Tensor LoraAdapter::rows(const Tensor& ids, double factor, std::optional<std::int64_t> padding_id) const {
  const auto chosen = [&] {  // columns of A, as rows
    if (needs_gradient({a})) return embedding(transpose(a, 0, 1).contiguous(), ids, 1.0, padding_id);
    return stored_embedding(transpose(a.contiguous(), 0, 1), nullptr, ids, 1.0);
  };
  return linear(chosen() * (scale * factor), b);
}

AdapterDropout::AdapterDropout(const Context& context) : before_(dropout_generator) {
  if (!context.training) return;
  if (context.generator == nullptr)
    throw Error("dropout: no random generator (set Context::generator for training)");
  dropout_generator = context.generator;
}

bool AdapterDropout::active() { return dropout_generator != nullptr; }

AdapterDropout::~AdapterDropout() { dropout_generator = before_; }

}  // namespace heed
