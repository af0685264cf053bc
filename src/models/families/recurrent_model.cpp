// Forward pass, loss and decoding of recurrent encoder-decoders.
#include <numeric>

#include "heed/autograd.h"
#include "heed/nn/part.h"
#include "heed/ops/shape.h"
#include "models/assembled.h"
#include "models/families/recurrent_common.h"
#include "models/named_tensors.h"

namespace heed {
namespace {

// The number of tokens of each row of a mask i64 [B, S]; undefined for an undefined mask. Throws Error unless
// padding is at the ends of rows.
Tensor lengths_of_mask(const Tensor& mask, const char* name) {
  if (!mask.defined()) return {};
  const std::vector<std::int64_t> shown = mask.to_vector<std::int64_t>();
  const auto columns = static_cast<std::size_t>(mask.size(1));
  std::vector<std::int64_t> lengths;
  for (std::size_t row = 0; row < static_cast<std::size_t>(mask.size(0)); ++row) {
    std::size_t length = 0;
    while (length < columns && shown[row * columns + length] != 0) ++length;
    for (std::size_t i = length; i < columns; ++i) {
      if (shown[row * columns + i] != 0)
        throw Error(std::string("forward: ") + name +
                    ": expected padding at the ends of rows, got a token after "
                    "padding in row " +
                    std::to_string(row) + " (a recurrent model reads rows from their start)");
    }
    lengths.push_back(static_cast<std::int64_t>(length));
  }
  return Tensor::from(lengths, {mask.size(0)});
}

class RecurrentDecoding final : public Decoding {
 public:
  RecurrentDecoding(const RecurrentDecoder& decoder, RecurrentDecoderState state, SourceMemory sources,
                    std::int64_t rows)
      : decoder_(decoder),
        state_(std::move(state)),
        sources_(std::move(sources)),
        memory_(sources_),
        source_of_row_(static_cast<std::size_t>(rows)) {
    std::iota(source_of_row_.begin(), source_of_row_.end(), std::int64_t{0});
  }

  Tensor step(const Tensor& ids, Context& context) override {
    if (ids.rank() != 2 || ids.size(0) != rows() || ids.size(1) < 1)
      throw Error("decoding: expected ids [" + std::to_string(rows()) + ", T], got " + ids.str());
    const NoGradients guard;
    const std::int64_t time = ids.size(1);
    const Tensor hidden = decoder_(ids, state_, memory_, context);
    length_ += time;
    Tensor logits =
        decoder_.output(reshape(slice(hidden, 1, time - 1, time), {rows(), hidden.size(2)}));  // [R, V]
    tap_logits(context, logits);
    return logits;
  }

  void reorder(std::span<const std::int64_t> rows) override {
    std::vector<std::int64_t> sources;
    for (const std::int64_t row : rows) {
      if (row < 0 || row >= this->rows()) {
        throw Error("decoding: expected rows below " + std::to_string(this->rows()) + ", got " +
                    std::to_string(row));
      }
      sources.push_back(source_of_row_[static_cast<std::size_t>(row)]);
    }
    const Shape count{static_cast<std::int64_t>(rows.size())};
    const Tensor from = Tensor::from(rows, count);
    const auto take = [&](Tensor& t) {
      if (t.defined()) t = gather(t, 0, from);
    };
    for (RecurrentState& layer : state_.layers) {
      take(layer.h);
      take(layer.c);
    }
    take(state_.fed);
    // Beams of one source share its memory, so a reordering among them leaves it.
    if (sources != source_of_row_ && decoder_.attention)
      memory_ = sources_.rows(Tensor::from(sources, count));
    source_of_row_ = std::move(sources);
  }

  std::int64_t rows() const override { return static_cast<std::int64_t>(source_of_row_.size()); }
  std::int64_t length() const override { return length_; }

 private:
  const RecurrentDecoder& decoder_;
  RecurrentDecoderState state_;
  SourceMemory sources_;  // of B sources
  SourceMemory memory_;   // of R rows
  std::vector<std::int64_t> source_of_row_;
  std::int64_t length_ = 0;
};

class RecurrentModel final : public Assembled<EncoderDecoderModel> {
 public:
  RecurrentModel(ModelContents files, RecurrentParts parts, const EncoderDecoderTraits& traits)
      : Assembled(std::move(files)), parts_(std::move(parts)), traits_(traits) {}

  std::optional<std::int64_t> max_positions() const override { return std::nullopt; }
  std::int64_t vocab_size() const override { return traits_.vocab_size; }
  std::int64_t decoder_start_id() const override { return traits_.decoder_start_id; }
  std::int64_t pad_id() const override { return traits_.pad_id; }
  std::int64_t eos_id() const override { return traits_.eos_id; }
  bool has_self_attention() const override { return false; }
  bool has_cross_attention() const override { return parts_.decoder.attention.has_value(); }

  TensorMap forward(const TensorMap& inputs, const ForwardOptions& options, Context& context) const override;
  Tensor decoder_inputs(const Tensor& labels, std::int64_t ignored) const override {
    return shifted_right(labels, ignored, traits_);
  }
  Tensor loss(const ModelInput& source, const Tensor& labels, const CrossEntropyOptions& options,
              Context& context) const override {
    const EncodedSource encoded = encoded_source(source, context);
    const Tensor hidden =
        decoded(encoded, source.mask, decoder_inputs(labels, options.ignore_index), context);
    return parts_.decoder.output.cross_entropy(hidden, labels, options);
  }
  Tensor encode(const ModelInput& source, Context& context) const override {
    const Tensor states = encoded_source(source, context).memory;
    return source.read.empty() ? states : tokens_at(states, source.read);
  }
  std::unique_ptr<Decoding> decode(const ModelInput& source, Context& context) const override {
    const NoGradients guard;
    const EncodedSource encoded = encoded_source(source, context);
    return std::make_unique<RecurrentDecoding>(parts_.decoder, parts_.decoder.start(encoded),
                                               memory_of(encoded, source.mask), source.size());
  }

 private:
  EncodedSource encoded_source(const ModelInput& source, Context& context) const {
    if (!source.ids.defined()) throw Error("encode: expected input_ids, got " + source.first().str());
    return parts_.encoder(source.ids, lengths_of_mask(source.mask, "attention_mask"), context);
  }
  SourceMemory memory_of(const EncodedSource& source, const Tensor& mask) const {
    if (!parts_.decoder.attention) return {};
    return parts_.decoder.attention->prepare(source.memory, mask.defined() ? mask.to(DType::boolean) : mask);
  }
  // What the output projection reads at every position of the target.
  Tensor decoded(const EncodedSource& source, const Tensor& mask, const Tensor& ids, Context& context) const {
    RecurrentDecoderState state = parts_.decoder.start(source);
    return parts_.decoder(ids, state, memory_of(source, mask), context);
  }

  RecurrentParts parts_;
  EncoderDecoderTraits traits_;
};

TensorMap RecurrentModel::forward(const TensorMap& inputs, const ForwardOptions& options,
                                  Context& context) const {
  const ModelInput source = token_inputs(inputs, parts_.encoder.tokens.table.size(0), kTargetInputs);
  const auto [target, target_mask, labels] =
      target_inputs(inputs, source.size(), parts_.decoder.tokens.table.size(0), traits_);
  // A mask of padding at the ends of rows changes no output of a token before it.
  lengths_of_mask(target_mask, "decoder_attention_mask");

  Collector collector(context, options);
  collector.listen("encoder", parts_.encoder.layers.size(), "encoder_");
  collector.listen("decoder", parts_.decoder.layers.size(), "decoder_");
  const EncodedSource encoded = encoded_source(source, collector.context);
  const Tensor last = decoded(encoded, source.mask, target, collector.context);
  TensorMap& outputs = collector.outputs;
  outputs["encoder_last_hidden_state"] = encoded.memory;
  outputs["last_hidden_state"] = last;
  if (!collector.wants_logits()) return outputs;
  Tensor& logits = outputs["logits"] = parts_.decoder.output(last);  // [B, T, V]
  tap_logits(collector.context, logits);
  if (labels.defined()) outputs["loss"] = cross_entropy(outputs["logits"], labels, CrossEntropyOptions());
  return outputs;
}

}  // namespace

std::unique_ptr<Model> assemble_recurrent(ModelContents files, RecurrentParts parts,
                                          const EncoderDecoderTraits& traits) {
  return std::make_unique<RecurrentModel>(std::move(files), std::move(parts), traits);
}

}  // namespace heed
