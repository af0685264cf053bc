// Forward pass, loss, cached decoding and saving of assembled decoders.
#include "models/decoder.h"

#include "heed/autograd.h"
#include "heed/io/file.h"
#include "heed/ops/shape.h"
#include "models/config_fields.h"
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
    if (ids.rank() != 2 || ids.size(0) != rows_ || ids.size(1) < 1) {
      throw Error("decoding: expected ids [" + std::to_string(rows_) + ", T], got " + ids.str());
    }
    const NoGradients guard;
    const Tensor hidden = parts_(ids, causal(), &caches_, context);
    length_ += ids.size(1);
    const Tensor last = slice(hidden, 1, ids.size(1) - 1, ids.size(1));
    return parts_.output(reshape(last, {rows_, hidden.size(2)}));  // [R, V]
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
  std::int64_t length() const override { return length_; }

 private:
  const DecoderParts& parts_;
  std::vector<KeyValueCache> caches_;
  std::int64_t rows_;
  std::int64_t length_ = 0;
};

std::string default_generation(const Config& config) {
  JsonWriter json(2);
  json.begin_object();
  for (const char* key : {"bos_token_id", "eos_token_id", "pad_token_id"}) {
    const std::vector<std::int64_t> ids = config.integers(key);
    if (ids.size() == 1) json.field(key, ids.front());
    if (ids.size() > 1) json.field(key, ids);
  }
  json.end_object();
  return json.text() + "\n";
}

}  // namespace

Tensor DecoderParts::operator()(const Tensor& ids, const AttentionOptions& options,
                                std::vector<KeyValueCache>* caches, Context& context) const {
  const std::int64_t first = caches != nullptr && !caches->empty() ? caches->front().length : 0;
  Tensor x = embedding(ids);  // [B, T, D]
  if (embedding_norm) x = (*embedding_norm)(x);
  if (positions) x = positions->embed(x, first);
  return stack(apply_dropout(x, embedding_dropout, context), options, caches, context);
}

Tensor AssembledDecoder::loss(const Tensor& ids, const Tensor& labels, const CrossEntropyOptions& options,
                              Context& context) const {
  const Tensor hidden = parts_(ids, causal(), nullptr, context);
  return linear_cross_entropy(hidden, parts_.output.weight, parts_.output.bias, labels, options);
}

std::unique_ptr<Decoding> AssembledDecoder::decode(std::int64_t rows) const {
  if (rows < 1) throw Error("decoding: expected at least 1 row, got " + std::to_string(rows));
  return std::make_unique<CausalDecoding>(parts_, rows);
}

TensorMap AssembledDecoder::forward(const TensorMap& inputs, const ForwardOptions& options,
                                    Context& context) const {
  refuse_unknown_inputs(inputs, {"input_ids", "attention_mask", "labels"});
  const Tensor ids = ids_input(required_input(inputs, "input_ids"), "input_ids");
  const AttentionOptions attention = causal(see_only(optional_ids(inputs, "attention_mask", &ids.shape())));
  const Tensor labels = optional_ids(inputs, "labels", &ids.shape());

  TensorMap outputs;
  Taps taps(context.taps);
  const std::size_t layers = parts_.stack.layers.size();
  if (options.hidden_states) collect_hidden_states(taps, parts_.stack.name, layers, "hidden_states", outputs);
  if (options.attentions)
    collect_attentions(taps, parts_.stack.name, "self_attn", layers, "attentions", outputs);
  Context listening = context;
  listening.taps = &taps;
  const Tensor hidden = parts_(ids, attention, nullptr, listening);
  if (options.hidden_states)  // the last one comes after the final norm
    outputs["hidden_states." + std::to_string(layers)] = hidden;
  outputs["last_hidden_state"] = hidden;
  outputs["logits"] = parts_.output(hidden);  // [B, T, V]
  if (labels.defined()) {
    const CrossEntropyOptions loss_options;
    outputs["loss"] =
        cross_entropy(outputs["logits"], shift_left(labels, loss_options.ignore_index), loss_options);
  }
  return outputs;
}

void AssembledDecoder::save(const std::filesystem::path& directory, DType dtype) const {
  write_file(directory / "config.json", config_for_saving(files_.config, dtype));
  write_file(directory / "generation_config.json",
             files_.generation.empty() ? default_generation(files_.config) : files_.generation);
  save_safetensors(directory / "model.safetensors", files_.weights.stored(dtype));
}

DecoderFiles load_decoder_files(const std::filesystem::path& directory, DType dtype,
                                const std::function<TensorTable(const Config&)>& table) {
  const Config config = Config::load(directory / "config.json");
  const TensorTable rows = table(config);
  const std::filesystem::path generation = directory / "generation_config.json";
  return {config, std::filesystem::exists(generation) ? read_file(generation) : std::string(),
          Weights::load(TensorFiles::open(directory), rows, dtype)};
}

DecoderFiles make_decoder_files(const Config& config, Generator& generator,
                                const std::function<TensorTable(const Config&)>& table) {
  const TensorTable rows = table(config);
  return {config, "", Weights::initialise(rows, generator)};
}

}  // namespace heed
