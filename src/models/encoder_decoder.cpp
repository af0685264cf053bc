// Forward pass and loss of assembled encoder-decoders.
#include "models/encoder_decoder.h"

#include <algorithm>

#include "heed/autograd.h"
#include "models/assembled.h"
#include "models/named_tensors.h"
#include "models/packed_rows.h"
#include "models/steering.h"

namespace heed {
namespace {

class AssembledEncoderDecoder final : public Assembled<EncoderDecoderModel> {
 public:
  AssembledEncoderDecoder(ModelContents files, EncoderDecoderParts parts, const EncoderDecoderTraits& traits)
      : Assembled(std::move(files)), parts_(std::move(parts)), traits_(traits) {}

  std::optional<std::int64_t> max_positions() const override { return traits_.max_positions; }
  std::optional<std::int64_t> trained_positions() const override {
    return traits_.trained_positions ? traits_.trained_positions : traits_.max_positions;
  }
  std::int64_t vocab_size() const override { return traits_.vocab_size; }
  InputSpec input() const override { return parts_.source.input(); }
  std::int64_t decoder_start_id() const override { return traits_.decoder_start_id; }
  std::int64_t pad_id() const override { return traits_.pad_id; }
  std::int64_t eos_id() const override { return traits_.eos_id; }
  std::optional<ReadOut> read_out() const override { return parts_.decoder.read_out(); }
  const Stack* stack_named(const std::string& name) const override {
    if (name == parts_.encoder.name) return &parts_.encoder;
    return name == parts_.decoder.stack.name ? &parts_.decoder.stack : nullptr;
  }
  Tensor token_vectors(const std::string& name) const override {
    if (name == parts_.encoder.name) return parts_.source.token_vectors();
    return name == parts_.decoder.stack.name ? parts_.decoder.embeddings.token_vectors() : Tensor();
  }
  void steer(const std::string& stack, std::int64_t layer, const Tensor& vector) override {
    steer_stack({&parts_.encoder, &parts_.decoder.stack}, stack, layer, vector);
  }

  TensorMap forward(const TensorMap& inputs, const ForwardOptions& options, Context& context) const override;
  Tensor decoder_inputs(const Tensor& labels, std::int64_t ignored) const override {
    return shifted_right(labels, ignored, traits_);
  }
  Tensor loss(const ModelInput& source, const Tensor& labels, const CrossEntropyOptions& options,
              Context& context) const override;
  Tensor encode(const ModelInput& source, Context& context) const override {
    return parts_.encode(source, context, !source.skips_padding).states;
  }
  std::unique_ptr<Decoding> decode(const ModelInput& source, Context& context) const override;

 private:
  // The last hidden state of the decoder.
  Tensor hidden(const Tensor& ids, const AttentionOptions& self, const MaskedStates& source,
                Context& context) const;

  EncoderDecoderParts parts_;
  EncoderDecoderTraits traits_;
};

Tensor AssembledEncoderDecoder::hidden(const Tensor& ids, const AttentionOptions& self,
                                       const MaskedStates& source, Context& context) const {
  Pass pass(context);
  pass.self = self;
  pass.cross = masked_keys(source.mask);
  pass.memory = parts_.memory(source.states);
  return parts_.decoder({.ids = ids}, pass);
}

Tensor AssembledEncoderDecoder::loss(const ModelInput& source, const Tensor& labels,
                                     const CrossEntropyOptions& options, Context& context) const {
  const MaskedStates encoded = parts_.encode(source, context);
  const Tensor target = decoder_inputs(labels, options.ignore_index);
  const Tensor last = hidden(target, {}, encoded, context);
  return parts_.decoder.output.cross_entropy(parts_.decoder.output_input(last), labels, options);
}

std::unique_ptr<Decoding> AssembledEncoderDecoder::decode(const ModelInput& source, Context& context) const {
  const NoGradients guard;
  const MaskedStates encoded = parts_.encode(source, context);
  return start_decoding(parts_.decoder, source.size(), parts_.memory(encoded.states), encoded.mask);
}

TensorMap AssembledEncoderDecoder::forward(const TensorMap& inputs, const ForwardOptions& options,
                                           Context& context) const {
  const auto given = inputs.find("encoder_outputs");
  const bool encoded_before = given != inputs.end();
  if (encoded_before && given->second.rank() != 3)
    throw Error("forward: encoder_outputs: expected [B, S, D], got " + given->second.str());
  const ModelInput source = encoded_before ? ModelInput() : parts_.source.read(inputs, kTargetInputs);
  const std::int64_t rows = encoded_before ? given->second.size(0) : source.size();
  const auto [target, target_mask, labels] =
      target_inputs(inputs, rows, parts_.decoder.embeddings.tokens.table.size(0), traits_);

  Collector collector(context, options);
  collector.listen(parts_.encoder, "encoder_");
  collector.listen(parts_.decoder.stack, "decoder_");
  const MaskedStates encoded =
      encoded_before ? MaskedStates{given->second, optional_ids(inputs, "attention_mask", nullptr)}
                     : parts_.encode(source, collector.context, true);
  const Tensor last = hidden(target, masked_keys(target_mask), encoded, collector.context);
  if (parts_.normed_encoder_states) collector.replace_last(parts_.encoder, "encoder_", encoded.states);
  collector.replace_last(parts_.decoder.stack, "decoder_", last);
  TensorMap& outputs = collector.outputs;
  outputs["encoder_last_hidden_state"] = encoded.states;
  outputs["last_hidden_state"] = last;
  if (!collector.wants_logits()) return outputs;
  outputs["logits"] = parts_.decoder.logits(last, collector.context);  // [B, T, V]
  if (labels.defined()) outputs["loss"] = cross_entropy(outputs["logits"], labels, CrossEntropyOptions());
  return outputs;
}

}  // namespace

Tensor shifted_right(const Tensor& labels, std::int64_t ignored, const EncoderDecoderTraits& traits) {
  if (labels.rank() != 2 || labels.dtype() != DType::i64)
    throw Error("labels: expected i64[B, T], got " + labels.str());
  Tensor shifted = Tensor::empty(labels.shape(), DType::i64);
  const std::int64_t length = labels.size(1);
  const Tensor dense = labels.contiguous();
  const std::int64_t* from = dense.data<std::int64_t>();
  std::int64_t* to = shifted.data<std::int64_t>();
  const auto read = [&](std::int64_t label) { return label == ignored ? traits.pad_id : label; };
  const auto absent = [&](std::int64_t label) { return label == ignored || label == traits.pad_id; };
  for (std::int64_t b = 0; b < labels.size(0); ++b, from += length, to += length) {
    to[0] = traits.decoder_start_id;
    if (traits.starts_with_last_label) {
      const auto count = length - std::count_if(from, from + length, absent);
      // Without a token in the row, the one before the first is its last, as transformers takes it.
      to[0] = read(from[count > 0 ? count - 1 : length - 1]);
    }
    for (std::int64_t t = 1; t < length; ++t) to[t] = read(from[t - 1]);
  }
  return shifted;
}

TargetInputs target_inputs(const TensorMap& inputs, std::int64_t batch, std::int64_t vocab,
                           const EncoderDecoderTraits& traits) {
  TargetInputs target{optional_ids(inputs, "decoder_input_ids", nullptr), {}, {}};
  target.labels = optional_ids(inputs, "labels", nullptr);
  if (!target.ids.defined() && !target.labels.defined())
    throw Error(
        "forward: expected an input decoder_input_ids or labels, got neither (the decoder reads a target)");
  if (!target.ids.defined())
    target.ids = shifted_right(target.labels, CrossEntropyOptions().ignore_index, traits);
  if (target.ids.size(0) != batch) {
    throw Error("forward: decoder_input_ids: expected a batch of " + std::to_string(batch) + ", got " +
                target.ids.str());
  }
  check_ids(target.ids, "decoder_input_ids", vocab);
  target.mask = optional_ids(inputs, "decoder_attention_mask", &target.ids.shape());
  return target;
}

MaskedStates EncoderDecoderParts::encode(const ModelInput& input, Context& context,
                                         bool reads_padding) const {
  const Tensor mask = source.token_mask(input);
  if (const Tensor packed = encode_packed(source, encoder, input, mask, false, reads_padding, context);
      packed.defined())
    return {packed, mask};
  Pass pass(context);
  pass.self = masked_keys(mask);
  pass.read = input.read;
  pass.name = encoder.name;
  const Tensor x = source(input, pass);
  if (source.frontend) source.frontend->prepare(input.values, pass);
  return {apply_dropout(encoder(x, pass), encoder_dropout, context), mask};
}

std::unique_ptr<Model> assemble_encoder_decoder(ModelContents files, EncoderDecoderParts parts,
                                                const EncoderDecoderTraits& traits) {
  return std::make_unique<AssembledEncoderDecoder>(std::move(files), std::move(parts), traits);
}

}  // namespace heed
