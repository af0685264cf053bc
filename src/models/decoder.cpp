// Forward pass, loss, cached decoding and saving of assembled decoders.
#include "models/decoder.h"

#include "heed/autograd.h"
#include "heed/ops/shape.h"
#include "models/named_tensors.h"

namespace heed {
namespace {

AttentionOptions causal(AttentionOptions options = {}) {
  options.causal = true;
  return options;
}

// What follows each token: labels one place earlier, nothing after the last.
Tensor shift_left(const Tensor& labels, std::int64_t ignored) {
  const Tensor shifted = Tensor::full(labels.shape(), static_cast<double>(ignored), DType::i64);
  const std::int64_t last = labels.size(1) - 1;
  if (last > 0) slice(shifted, 1, 0, last).copy_from(slice(labels, 1, 1, last + 1));
  return shifted;
}

class CausalDecoding final : public Decoding {
 public:
  CausalDecoding(const DecoderParts& parts, std::int64_t rows)
      : parts_(parts), caches_(parts.stack.layers.size()), rows_(rows) {}

  Tensor step(const Tensor& ids, Context& context) override {
    const Tensor hidden = feed(ids, context);
    const std::int64_t time = ids.size(1);
    return parts_.output(reshape(slice(hidden, 1, time - 1, time), {rows_, hidden.size(2)}));  // [R, V]
  }

  Tensor step_ragged(const Tensor& ids, std::span<const std::int64_t> lengths, Context& context) override {
    bool fit = static_cast<std::int64_t>(lengths.size()) == rows_;
    for (const std::int64_t length : lengths) fit = fit && length >= 1 && length <= ids.size(1);
    if (!fit) {
      throw Error("decoding: expected for each of " + std::to_string(rows_) +
                  " rows at least one of the ids " + ids.str() + ", got other lengths");
    }
    const Tensor hidden = feed(ids, context);
    const std::int64_t time = ids.size(1);
    for (KeyValueCache& cache : caches_) cache.drop_padding(time, lengths);
    std::vector<std::int64_t> last;
    for (std::int64_t row = 0; row < rows_; ++row)
      last.push_back(row * time + lengths[static_cast<std::size_t>(row)] - 1);
    const NoGradients guard;
    const Tensor flat = reshape(hidden, {rows_ * time, hidden.size(2)});
    return parts_.output(gather(flat, 0, Tensor::from(last, {rows_})));  // [R, V]
  }

  void reorder(std::span<const std::int64_t> rows) override {
    for (const std::int64_t row : rows) {
      if (row < 0 || row >= rows_)
        throw Error("decoding: expected rows below " + std::to_string(rows_) + ", got " +
                    std::to_string(row));
    }
    rows_ = static_cast<std::int64_t>(rows.size());
    const Tensor index = Tensor::from(rows, {rows_});
    for (KeyValueCache& cache : caches_) cache.reorder(index);
  }

  std::int64_t rows() const override { return rows_; }
  std::int64_t length() const override { return caches_.front().length; }

 private:
  // The last layer's output [R, T, D].
  Tensor feed(const Tensor& ids, Context& context) {
    if (ids.rank() != 2 || ids.size(0) != rows_ || ids.size(1) < 1) {
      throw Error("decoding: expected ids [" + std::to_string(rows_) + ", T], got " + ids.str());
    }
    const NoGradients guard;
    return parts_(ids, causal(), &caches_, context);
  }

  const DecoderParts& parts_;
  std::vector<KeyValueCache> caches_;
  std::int64_t rows_;
};

}  // namespace

Tensor DecoderParts::operator()(const Tensor& ids, const AttentionOptions& options,
                                std::vector<KeyValueCache>* caches, Context& context) const {
  const Places after_cache = caches != nullptr ? caches->front().places() : Places();
  const Places& places = context.places != nullptr ? *context.places : after_cache;
  Tensor x = embedding(ids);  // [B, T, D]
  if (embedding_norm) x = (*embedding_norm)(x);
  if (positions != nullptr) x = positions->embed(x, places);
  return stack(apply_dropout(x, embedding_dropout, context), options, caches, context);
}

void add_output(TensorTable& table, const Config& json, const std::string& name, const Shape& shape) {
  const std::vector<std::string> architectures = json.strings("architectures");
  const std::string architecture = architectures.empty() ? "" : architectures.front();
  if (architecture.ends_with("Model") && !architecture.ends_with("LMHeadModel")) {
    table.computed.push_back(name);  // of no use to such a model, should it be there
  } else {
    table.rows.push_back({name, shape});
  }
}

void AssembledDecoder::check_output() const {
  if (!parts_.output.weight.defined())
    throw Error(config().where() + ": architectures: expected a model that predicts tokens, got " +
                config().strings("architectures").front() + ", which was saved without its output map");
}

Tensor AssembledDecoder::loss(const Tensor& ids, const Tensor& labels, const CrossEntropyOptions& options,
                              Context& context) const {
  check_output();
  const Tensor hidden = encode(ids, context);
  return linear_cross_entropy(hidden, parts_.output.weight, parts_.output.bias, labels, options);
}

Tensor AssembledDecoder::encode(const Tensor& ids, Context& context) const {
  return parts_(ids, causal(), nullptr, context);
}

std::unique_ptr<Decoding> AssembledDecoder::decode(std::int64_t rows) const {
  check_output();
  if (rows < 1) throw Error("decoding: expected at least 1 row, got " + std::to_string(rows));
  return std::make_unique<CausalDecoding>(parts_, rows);
}

TensorMap AssembledDecoder::forward(const TensorMap& inputs, const ForwardOptions& options,
                                    Context& context) const {
  refuse_unknown_inputs(inputs,
                        parts_.takes_position_ids
                            ? std::set<std::string>{"input_ids", "attention_mask", "position_ids", "labels"}
                            : std::set<std::string>{"input_ids", "attention_mask", "labels"});
  const Tensor ids = ids_input(required_input(inputs, "input_ids"), "input_ids");
  check_ids(ids, "input_ids", vocab_size());
  const AttentionOptions attention = causal(see_only(optional_ids(inputs, "attention_mask", &ids.shape())));
  const Tensor labels = optional_ids(inputs, "labels", &ids.shape());
  if (labels.defined()) check_output();

  const Tensor position_ids = optional_ids(inputs, "position_ids", &ids.shape());
  const Places given = position_ids.defined() ? Places(position_ids) : Places();

  TensorMap outputs;
  Taps taps(context.taps);
  const std::size_t layers = parts_.stack.layers.size();
  if (options.hidden_states) collect_hidden_states(taps, parts_.stack.name, layers, "hidden_states", outputs);
  if (options.attentions)
    collect_attentions(taps, parts_.stack.name, "self_attn", layers, "attentions", outputs);
  Context listening = context;
  listening.taps = &taps;
  if (position_ids.defined()) listening.places = &given;
  const Tensor hidden = parts_(ids, attention, nullptr, listening);
  if (options.hidden_states)  // the last one comes after the final norm
    outputs["hidden_states." + std::to_string(layers)] = hidden;
  outputs["last_hidden_state"] = hidden;
  if (parts_.output.weight.defined()) outputs["logits"] = parts_.output(hidden);  // [B, T, V]
  if (labels.defined()) {
    const CrossEntropyOptions loss_options;
    outputs["loss"] =
        cross_entropy(outputs["logits"], shift_left(labels, loss_options.ignore_index), loss_options);
  }
  return outputs;
}

}  // namespace heed
