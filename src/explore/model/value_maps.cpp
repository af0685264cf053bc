// Reads each head's part of the output projection through the tap of transformed values.
#include "explore/model/value_maps.h"

#include <algorithm>
#include <cmath>

#include "heed/autograd.h"
#include "heed/models/kind.h"
#include "heed/nn/tap.h"
#include "heed/ops/elementwise.h"
#include "heed/ops/matmul.h"
#include "heed/ops/reduce.h"
#include "heed/ops/shape.h"

namespace heed::explore {
namespace {

// The same identity matrix [d, d] for each head of values [1, K, d, d].
Tensor identities(const Tensor& values) {
  const std::int64_t heads = values.size(1), d = values.size(3);
  const Tensor result = Tensor::zeros({1, heads, d, d}, DType::f32);
  for (std::int64_t i = 0; i < heads * d; ++i) result.data<float>()[i * d + i % d] = 1;
  return result.to(values.dtype());
}

}  // namespace

ValueMaps::ValueMaps(const Model& model, const std::vector<RecordedLayer>& layers) {
  std::int64_t d = 0;
  for (const RecordedLayer& layer : layers) {
    if (!layer.v.defined() || (d != 0 && layer.v.size(2) != d)) return;
    d = layer.v.size(2);
  }
  if (d == 0 || (model.max_positions() && *model.max_positions() < d)) return;
  const NoGradients guard;
  Taps taps;
  for (const RecordedLayer& layer : layers) {
    taps.listen(layer.name + ".v", [](const std::string&, Tensor& value) { value = identities(value); });
    taps.listen(layer.name + ".transformed", [this, name = layer.name](const std::string&, Tensor& value) {
      const Tensor maps =
          reshape(value.to(DType::f32).contiguous(), {value.size(1), value.size(2), value.size(3)});
      products_[name] = matmul(maps, transpose(maps, 1, 2));
    });
  }
  const Tensor tokens = Tensor::zeros({1, d}, DType::i64);
  TensorMap inputs{{"input_ids", tokens}};
  if (as<EncoderDecoderModel>(model) != nullptr) inputs["decoder_input_ids"] = tokens;
  Context context{.taps = &taps};
  model.forward(inputs, {.logits = false}, context);
  if (products_.size() != layers.size()) products_.clear();
}

Tensor ValueMaps::norms(const RecordedLayer& layer) const {
  const NoGradients guard;
  const Tensor& products = products_.find(layer.name)->second;  // [H, d, d]
  const std::int64_t group = products.size(0) / layer.v.size(0);
  std::vector<Tensor> squares;
  for (std::int64_t head = 0; head < products.size(0); ++head) {
    const Tensor values = slice(layer.v, 0, head / group, head / group + 1).contiguous();  // [1, S, d]
    squares.push_back(sum(matmul(values, slice(products, 0, head, head + 1).contiguous()) * values, 2));
  }
  const Tensor result = concat(squares, 0);          // [H, S]
  for (std::int64_t i = 0; i < result.numel(); ++i)  // rounding may leave less than 0
    result.data<float>()[i] = std::sqrt(std::max(0.0f, result.data<float>()[i]));
  return result;
}

}  // namespace heed::explore
