// Forward pass, loss and cached decoding of assembled encoder-decoders.
#include "models/encoder_decoder.h"

#include "heed/autograd.h"
#include "heed/ops/elementwise.h"
#include "heed/ops/matmul.h"
#include "heed/ops/shape.h"
#include "models/named_tensors.h"

namespace heed {
namespace {

AttentionOptions causal_options() {
  AttentionOptions options;
  options.causal = true;
  return options;
}

class CachedDecoding final : public Decoding {
 public:
  CachedDecoding(const EncoderDecoderParts& parts, const SourceBatch& source, std::int64_t beams,
                 Context& context)
      : parts_(parts), caches_(parts.decoder.layers.size()), mask_(source.mask) {
    const NoGradients guard;
    const Tensor memory = parts.encode(source, context);
    for (std::size_t i = 0; i < caches_.size(); ++i)
      parts.decoder.layers[i].cross_attn.remember(memory, caches_[i].cross);
    for (std::int64_t b = 0; b < source.size(); ++b)
      sources_.insert(sources_.end(), static_cast<std::size_t>(beams), b);
    gather_sources(Tensor::from(sources_, {rows()}));
  }

  Tensor step(const Tensor& ids, Context& context) override {
    if (ids.rank() != 2 || ids.size(0) != rows() || ids.size(1) < 1) {
      throw Error("decoding: expected ids [" + std::to_string(rows()) + ", T], got " + ids.str());
    }
    const NoGradients guard;
    const Tensor hidden = parts_.decode(ids, {}, causal_options(), cross_options_, &caches_, context);
    length_ += ids.size(1);
    const Tensor last = reshape(slice(hidden, 1, ids.size(1) - 1, ids.size(1)), {rows(), hidden.size(2)});
    return parts_.output(parts_.scaled(last));  // [R, V]
  }

  void reorder(std::span<const std::int64_t> rows) override {
    std::vector<std::int64_t> sources;
    for (const std::int64_t row : rows) {
      if (row < 0 || row >= this->rows())
        throw Error("decoding: expected rows below " + std::to_string(this->rows()) + ", got " +
                    std::to_string(row));
      sources.push_back(sources_[static_cast<std::size_t>(row)]);
    }
    const Tensor index = Tensor::from(rows, {static_cast<std::int64_t>(rows.size())});
    for (DecoderLayerCache& cache : caches_) cache.self.reorder(index);
    // Beams of one sentence share its source, so a reordering among them leaves the cross caches as they are.
    if (sources != sources_) gather_sources(index);
    sources_ = std::move(sources);
  }

  std::int64_t rows() const override { return static_cast<std::int64_t>(sources_.size()); }
  std::int64_t length() const override { return length_; }

 private:
  void gather_sources(const Tensor& index) {
    for (DecoderLayerCache& cache : caches_) cache.cross.reorder(index);
    if (mask_.defined()) mask_ = gather(mask_, 0, index);
    cross_options_ = see_only(mask_);
  }

  const EncoderDecoderParts& parts_;
  std::vector<DecoderLayerCache> caches_;
  Tensor mask_;  // [R, S]
  AttentionOptions cross_options_;
  std::vector<std::int64_t> sources_;  // which source each row decodes
  std::int64_t length_ = 0;
};

}  // namespace

Tensor EmbeddingParts::operator()(const Tensor& ids, std::int64_t first, double dropout,
                                  Context& context) const {
  const Tensor x = positions->embed(embedding(ids), first);
  return apply_dropout(norm ? (*norm)(x) : x, dropout, context);
}

Tensor SoundParts::operator()(const Tensor& features, double dropout, Context& context) const {
  if (features.rank() != 3 || features.size(1) != bins || features.size(2) != frames) {
    throw Error("encode: expected input_features f32[B, " + std::to_string(bins) + ", " +
                std::to_string(frames) + "], got " + features.str());
  }
  const Tensor x = second(first(transpose(features, 1, 2), Activation::gelu), Activation::gelu);
  return apply_dropout(positions->embed(x, 0), dropout, context);
}

Tensor EncoderDecoderParts::encode(const SourceBatch& batch, Context& context) const {
  if (batch.features.defined() != sound.has_value()) {
    throw Error(sound ? "encode: expected input_features, as this model hears, got token ids (heed translate "
                        "--input takes them)"
                      : "encode: expected token ids, as this model reads, got input_features (heed translate "
                        "takes text and --prompt-ids)");
  }
  const Tensor x = sound ? (*sound)(batch.features, embedding_dropout, context)
                         : source(batch.ids, 0, embedding_dropout, context);
  return apply_dropout(encoder(x, see_only(batch.mask), context), stack_dropout, context);
}

Tensor EncoderDecoderParts::decode(const Tensor& ids, const Tensor& memory,
                                   const AttentionOptions& self_options,
                                   const AttentionOptions& cross_options,
                                   std::vector<DecoderLayerCache>* caches, Context& context) const {
  const std::int64_t first = caches != nullptr && !caches->empty() ? caches->front().self.length : 0;
  const Tensor x = target(ids, first, embedding_dropout, context);
  return apply_dropout(decoder(x, memory, self_options, cross_options, caches, context), stack_dropout,
                       context);
}

Tensor EncoderDecoderParts::scaled(const Tensor& hidden) const {
  return output_scale == 1.0 ? hidden : hidden * output_scale;
}

Tensor AssembledEncoderDecoder::decoder_inputs(const Tensor& labels, std::int64_t ignored) const {
  Tensor shifted = Tensor::empty(labels.shape(), DType::i64);
  const std::int64_t* from = labels.data<std::int64_t>();
  std::int64_t* to = shifted.data<std::int64_t>();
  const std::int64_t length = labels.size(1);
  for (std::int64_t i = 0; i < labels.numel(); ++i) {
    to[i] = i % length == 0 ? decoder_start_id() : from[i - 1] == ignored ? pad_id() : from[i - 1];
  }
  return shifted;
}

Tensor AssembledEncoderDecoder::loss(const SourceBatch& source, const Tensor& decoder_ids,
                                     const Tensor& labels, const CrossEntropyOptions& options,
                                     Context& context) const {
  const Tensor memory = parts_.encode(source, context);
  const Tensor hidden =
      parts_.decode(decoder_ids, memory, causal_options(), see_only(source.mask), nullptr, context);
  return linear_cross_entropy(parts_.scaled(hidden), parts_.output.weight, parts_.output.bias, labels,
                              options);
}

std::unique_ptr<Decoding> AssembledEncoderDecoder::decode(const SourceBatch& source, std::int64_t beams,
                                                          Context& context) const {
  if (beams < 1) throw Error("decoding: expected at least 1 beam, got " + std::to_string(beams));
  return std::make_unique<CachedDecoding>(parts_, source, beams, context);
}

SourceBatch AssembledEncoderDecoder::source_of(const TensorMap& inputs) const {
  std::set<std::string> known{"decoder_input_ids", "decoder_attention_mask", "labels"};
  if (parts_.sound) {
    known.insert("input_features");
    refuse_unknown_inputs(inputs, known);
    return {{}, {}, floats_input(inputs, "input_features", {parts_.sound->bins, parts_.sound->frames})};
  }
  known.insert({"input_ids", "attention_mask"});
  refuse_unknown_inputs(inputs, known);
  SourceBatch source{ids_input(required_input(inputs, "input_ids"), "input_ids"), {}};
  source.mask = optional_ids(inputs, "attention_mask", &source.ids.shape());
  check_ids(source.ids, "input_ids", parts_.source.embedding.table.size(0));
  return source;
}

TensorMap AssembledEncoderDecoder::forward(const TensorMap& inputs, const ForwardOptions& options,
                                           Context& context) const {
  const SourceBatch source = source_of(inputs);
  const Tensor labels = optional_ids(inputs, "labels", nullptr);
  Tensor target = optional_ids(inputs, "decoder_input_ids", nullptr);
  const CrossEntropyOptions loss_options;
  if (!target.defined() && !labels.defined())
    throw Error(
        "forward: expected an input decoder_input_ids or labels, got neither (the decoder reads a target)");
  if (!target.defined()) target = decoder_inputs(labels, loss_options.ignore_index);
  if (target.size(0) != source.size()) {
    throw Error("forward: decoder_input_ids: expected a batch of " + std::to_string(source.size()) +
                ", got " + target.str());
  }
  check_ids(target, "decoder_input_ids", parts_.target.embedding.table.size(0));
  AttentionOptions self_options = see_only(optional_ids(inputs, "decoder_attention_mask", &target.shape()));
  self_options.causal = true;

  TensorMap outputs;
  Taps taps(context.taps);
  const std::size_t encoder_layers = parts_.encoder.layers.size(),
                    decoder_layers = parts_.decoder.layers.size();
  if (options.hidden_states) {
    collect_hidden_states(taps, parts_.encoder.name, encoder_layers, "encoder_hidden_states", outputs);
    collect_hidden_states(taps, parts_.decoder.name, decoder_layers, "decoder_hidden_states", outputs);
  }
  if (options.attentions) {
    collect_attentions(taps, parts_.encoder.name, "self_attn", encoder_layers, "encoder_attentions", outputs);
    collect_attentions(taps, parts_.decoder.name, "self_attn", decoder_layers, "decoder_attentions", outputs);
    collect_attentions(taps, parts_.decoder.name, "cross_attn", decoder_layers, "cross_attentions", outputs);
  }
  Context listening = context;
  listening.taps = &taps;
  const Tensor memory = parts_.encode(source, listening);
  const Tensor hidden =
      parts_.decode(target, memory, self_options, see_only(source.mask), nullptr, listening);
  if (options.hidden_states) {  // the last ones come after the final norm, where there is one
    outputs[parts_.encoder.name + "_hidden_states." + std::to_string(encoder_layers)] = memory;
    outputs[parts_.decoder.name + "_hidden_states." + std::to_string(decoder_layers)] = hidden;
  }
  outputs["encoder_last_hidden_state"] = memory;
  outputs["last_hidden_state"] = hidden;
  outputs["logits"] = parts_.output(parts_.scaled(hidden));  // [B, T, V]
  if (labels.defined()) outputs["loss"] = cross_entropy(outputs["logits"], labels, loss_options);
  return outputs;
}

}  // namespace heed
