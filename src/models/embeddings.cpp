// Embeddings of tokens and of audio features.
#include "models/embeddings.h"

#include "heed/ops/elementwise.h"
#include "heed/ops/embedding.h"
#include "heed/ops/shape.h"

namespace heed {
namespace {

Tensor is_not(const Tensor& ids, std::int64_t padding) {
  const Tensor present = Tensor::empty(ids.shape(), DType::boolean);
  const Tensor dense = ids.contiguous();
  for (std::int64_t i = 0; i < ids.numel(); ++i)
    present.data<bool>()[i] = dense.data<std::int64_t>()[i] != padding;
  return present;
}

// Positions of the tokens that are not padding, after those of earlier passes; -1 for padding.
PositionIds without(const Tensor& ids, std::int64_t padding, const PositionIds& given) {
  const Tensor positions = unpadded_positions(is_not(ids, padding), -1);
  const Tensor from = given.of_tokens(ids.size(0), ids.size(1)).contiguous();
  for (std::int64_t i = 0; i < positions.numel(); ++i) {
    std::int64_t& position = positions.data<std::int64_t>()[i];
    if (position >= 0) position += from.data<std::int64_t>()[i / ids.size(1) * ids.size(1)];
  }
  return PositionIds(positions);
}

}  // namespace

std::function<void(Tensor)> sinusoidal_fill(SinusoidLayout layout) {
  return [layout](const Tensor& table) {
    table.copy_from(sinusoidal_table(table.size(0), table.size(1), layout));
  };
}

Tensor InputEmbeddings::operator()(const Tensor& ids, const PositionIds& position_ids, Context& context,
                                   const Tensor& type_ids) const {
  Tensor x = tokens(ids);  // [B, T, E]
  if (token_norm) x = (*token_norm)(x);
  if (token_types.defined())
    x = x + embedding(token_types, type_ids.defined() ? type_ids : Tensor::zeros({1}, DType::i64));
  if (positions) {
    x = positions->embed(x, unpositioned ? without(ids, *unpositioned, position_ids) : position_ids);
  }
  x = apply_dropout(norm ? (*norm)(x) : x, dropout, context);
  return projection ? (*projection)(x) : x;  // [B, T, D]
}

Tensor AudioFrontend::operator()(const Tensor& features, Context& context) const {
  if (features.rank() != 3 || features.size(1) != bins || features.size(2) != frames) {
    throw Error("encode: expected input_features f32[B, " + std::to_string(bins) + ", " +
                std::to_string(frames) + "], got " + features.str());
  }
  const Tensor x = second(first(transpose(features, 1, 2), Activation::gelu), Activation::gelu);
  return apply_dropout(positions.embed(x, 0), dropout, context);
}

}  // namespace heed
