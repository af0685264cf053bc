// Models for the tests of the doctor: sound ones whose values are changed on the way, by listeners that come
// before those of the doctor, or whose inputs are.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "heed/models/model.h"

namespace heed {

/// What is done to a model: listeners that it adds, and inputs that it changes.
struct Damage {
  std::function<void(Taps&)> listen = [](Taps&) {};
  std::function<void(TensorMap&)> change = [](TensorMap&) {};
  bool keeps_rows = false;  // while decoding, rows are not reordered
};

/// Runs `body` with a context whose listeners are those of the damage, then those of `user`.
template <class Body>
auto with_damage(const Damage& damage, const Context& user, Body body) {
  Taps taps;
  damage.listen(taps);
  Taps* const outer = user.taps;
  if (outer != nullptr) {
    taps.listen("*", [outer](const std::string& name, Tensor& value) {
      if (outer->wants(name)) outer->emit(name, value);
    });
  }
  Context context = user;
  context.taps = &taps;
  return body(context);
}

class TamperedDecoding final : public Decoding {
 public:
  TamperedDecoding(std::unique_ptr<Decoding> whole, const Damage& damage)
      : whole_(std::move(whole)), damage_(damage) {}
  Tensor step(const Tensor& ids, Context& context) override {
    return with_damage(damage_, context, [&](Context& own) { return whole_->step(ids, own); });
  }
  void reorder(std::span<const std::int64_t> rows) override {
    std::vector<std::int64_t> kept(rows.begin(), rows.end());
    for (std::size_t i = 0; damage_.keeps_rows && i < kept.size(); ++i)
      kept[i] = static_cast<std::int64_t>(i) % whole_->rows();
    whole_->reorder(kept);
  }
  std::int64_t rows() const override { return whole_->rows(); }
  std::int64_t length() const override { return whole_->length(); }

 private:
  std::unique_ptr<Decoding> whole_;
  const Damage& damage_;
};

/// A model whose forward pass is damaged.
template <class Interface>
class Tampered : public Interface {
 public:
  Tampered(std::unique_ptr<Interface> whole, Damage damage)
      : whole_(std::move(whole)), damage_(std::move(damage)) {}
  std::string family() const override { return whole_->family(); }
  const std::vector<Parameter>& parameters() const override { return whole_->parameters(); }
  void save(const std::filesystem::path& directory, DType dtype) const override {
    whole_->save(directory, dtype);
  }
  std::optional<std::int64_t> max_positions() const override { return whole_->max_positions(); }
  std::int64_t vocab_size() const override { return whole_->vocab_size(); }
  TensorMap forward(const TensorMap& inputs, const ForwardOptions& options, Context& context) const override {
    TensorMap changed = inputs;
    damage_.change(changed);
    return with_damage(damage_, context,
                       [&](Context& own) { return whole_->forward(changed, options, own); });
  }

 protected:
  std::unique_ptr<Interface> whole_;
  Damage damage_;
};

class TamperedDecoder final : public Tampered<DecoderModel> {
 public:
  using Tampered::Tampered;
  Tensor loss(const ModelInput& input, const Tensor& labels, const CrossEntropyOptions& options,
              Context& context, const Tensor& starts) const override {
    return whole_->loss(input, labels, options, context, starts);
  }
  Tensor encode(const ModelInput& input, Context& context) const override {
    return with_damage(damage_, context, [&](Context& own) { return whole_->encode(input, own); });
  }
  std::unique_ptr<Decoding> decode(std::int64_t rows) const override {
    return std::make_unique<TamperedDecoding>(whole_->decode(rows), damage_);
  }
  bool rows_are_independent() const override { return whole_->rows_are_independent(); }
};

/// An encoder with listeners, which may lose the mask of padding.
class TamperedEncoder final : public Tampered<EncoderModel> {
 public:
  TamperedEncoder(std::unique_ptr<EncoderModel> whole, Damage damage, bool masks)
      : Tampered(std::move(whole), std::move(damage)), masks_(masks) {
    if (!masks) damage_.change = [](TensorMap& inputs) { inputs.erase("attention_mask"); };
  }
  EncoderHead head() const override { return whole_->head(); }
  const std::vector<std::string>& labels() const override { return whole_->labels(); }
  std::optional<LabelProblem> problem() const override { return whole_->problem(); }
  std::int64_t hidden_size() const override { return whole_->hidden_size(); }
  std::int64_t type_vocab_size() const override { return whole_->type_vocab_size(); }
  std::int64_t pad_id() const override { return whole_->pad_id(); }
  Tensor encode(const ModelInput& batch, Context& context) const override {
    ModelInput seen = batch;
    if (!masks_) seen.mask = {};
    return with_damage(damage_, context, [&](Context& own) { return whole_->encode(seen, own); });
  }
  Tensor predict(const Tensor& hidden, const Tensor& mask, Context& context) const override {
    return whole_->predict(hidden, mask, context);
  }
  Tensor loss(const ModelInput& batch, const Tensor& labels, const CrossEntropyOptions& options,
              Context& context) const override {
    return whole_->loss(batch, labels, options, context);
  }

 private:
  bool masks_;
};

/// Attention as a broken program computes it, instead of the model's own weights.
struct WrongAttention {
  std::int64_t sees_ahead = 0;  // query t attends to keys s <= t + sees_ahead
  bool over_queries = false;    // the softmax is over queries
  bool scaled = true;           // by 1/sqrt(d)

  // Of queries [B, H, T, d] and keys [B, K, S, d].
  Tensor operator()(const Tensor& queries, const Tensor& keys) const {
    const Tensor q = queries.contiguous(), k = keys.contiguous();
    const std::int64_t heads = q.size(1), time = q.size(2), count = k.size(2), d = q.size(3);
    Tensor weights = Tensor::zeros({q.size(0), heads, time, count});
    for (std::int64_t h = 0; h < q.size(0) * heads; ++h) {
      float* w = weights.data<float>() + h * time * count;
      const float* own_keys = k.data<float>() + h / (heads / k.size(1)) * count * d;
      for (std::int64_t t = 0; t < time; ++t) {
        for (std::int64_t s = 0; s < count; ++s) {
          const bool seen = s <= t + count - time + sees_ahead;
          w[t * count + s] =
              seen ? score(q.data<float>() + (h * time + t) * d, own_keys + s * d, d) : -INFINITY;
        }
      }
      for (std::int64_t t = 0; t < time && !over_queries; ++t) softmax_of(w + t * count, count, 1);
      for (std::int64_t s = 0; s < count && over_queries; ++s) softmax_of(w + s, time, count);
    }
    return weights;
  }

 private:
  float score(const float* query, const float* key, std::int64_t d) const {
    double sum = 0;
    for (std::int64_t i = 0; i < d; ++i) sum += static_cast<double>(query[i]) * static_cast<double>(key[i]);
    return static_cast<float>(scaled ? sum / std::sqrt(static_cast<double>(d)) : sum);
  }
  static void softmax_of(float* w, std::int64_t count, std::int64_t stride) {
    float largest = -INFINITY, sum = 0;
    for (std::int64_t i = 0; i < count; ++i) largest = std::max(largest, w[i * stride]);
    for (std::int64_t i = 0; i < count; ++i) sum += w[i * stride] = std::exp(w[i * stride] - largest);
    for (std::int64_t i = 0; i < count; ++i) w[i * stride] /= sum;
  }
};

/// Replaces the weights of self-attention.
inline Damage attends(const WrongAttention& attention) {
  return {.listen = [attention](Taps& taps) {
    const auto seen = std::make_shared<std::map<char, Tensor>>();
    for (const char kind : {'q', 'k'}) {
      taps.listen(std::string("*.self_attn.") + kind,
                  [seen, kind](const std::string&, Tensor& value) { (*seen)[kind] = value; });
    }
    taps.listen("*.self_attn.weights", [seen, attention](const std::string&, Tensor& value) {
      value = attention((*seen)['q'], (*seen)['k']);
    });
  }};
}

}  // namespace heed
