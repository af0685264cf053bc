// Forward pass and loss of assembled decoders.
#include "models/decoder.h"

#include "heed/autograd.h"
#include "heed/nn/feed_forward.h"
#include "heed/ops/activation.h"
#include "heed/ops/elementwise.h"
#include "heed/ops/shape.h"
#include "models/assembled.h"
#include "models/named_tensors.h"
#include "models/steering.h"

namespace heed {
namespace {

// What follows each token: labels one position earlier, nothing after the last.
Tensor shift_left(const Tensor& labels, std::int64_t ignored) {
  const Tensor shifted = Tensor::full(labels.shape(), static_cast<double>(ignored), DType::i64);
  const std::int64_t last = labels.size(1) - 1;
  if (last > 0) slice(shifted, 1, 0, last).copy_from(slice(labels, 1, 1, last + 1));
  return shifted;
}

// 1 for tokens, 0 for the padding at the ends of rows; undefined where there is no padding id.
Tensor without_padding(const Tensor& ids, const std::optional<std::int64_t>& padding) {
  if (!padding) return {};
  const Tensor dense = ids.contiguous(), mask = Tensor::full(ids.shape(), 1, DType::i64);
  const std::int64_t time = ids.size(1);
  for (std::int64_t row = 0; row < ids.size(0); ++row) {
    const std::int64_t* id = dense.data<std::int64_t>() + row * time;
    for (std::int64_t t = time; t > 0 && id[t - 1] == *padding; --t)
      mask.data<std::int64_t>()[row * time + t - 1] = 0;
  }
  return mask;
}

// Tokens of a document attend to it only, and its positions begin at 0.
void keep_apart(const Tensor& document_starts, Pass& pass) {
  pass.self.key_starts = document_starts.contiguous();
  Tensor positions = pass.self.key_starts.clone();
  std::int64_t* position = positions.data<std::int64_t>();
  for (std::int64_t i = 0; i < positions.numel(); ++i) position[i] = i % positions.size(1) - position[i];
  pass.positions = PositionIds(positions);
}

class AssembledDecoder final : public Assembled<DecoderModel> {
 public:
  AssembledDecoder(ModelContents files, DecoderParts parts, const DecoderTraits& traits)
      : Assembled(std::move(files)), parts_(std::move(parts)), traits_(traits) {}

  std::optional<std::int64_t> max_positions() const override { return traits_.max_positions; }
  std::optional<std::int64_t> trained_positions() const override { return traits_.trained_positions; }
  std::int64_t vocab_size() const override { return parts_.embeddings.tokens.table.size(0); }
  bool rows_are_independent() const override { return traits_.rows_are_independent; }
  std::optional<ReadOut> read_out() const override {
    return parts_.output.weight.defined() ? std::optional(parts_.read_out()) : std::nullopt;
  }
  const Stack* stack_named(const std::string& name) const override {
    return name == parts_.stack.name ? &parts_.stack : nullptr;
  }
  Tensor token_vectors(const std::string& name) const override {
    return name == parts_.stack.name ? parts_.embeddings.token_vectors() : Tensor();
  }
  void steer(const std::string& stack, std::int64_t layer, const Tensor& vector) override {
    steer_stack({&parts_.stack}, stack, layer, vector);
  }

  TensorMap forward(const TensorMap& inputs, const ForwardOptions& options, Context& context) const override;
  Tensor loss(const ModelInput& input, const Tensor& labels, const CrossEntropyOptions& options,
              Context& context, const Tensor& document_starts) const override;
  Tensor encode(const ModelInput& input, Context& context) const override {
    Pass pass(context);
    pass.self = masked_keys(input.mask);
    pass.read = input.read;
    return parts_(input, pass);
  }
  std::unique_ptr<Decoding> decode(std::int64_t rows) const override {
    check_output();
    if (rows < 1) throw Error("decoding: expected at least 1 row, got " + std::to_string(rows));
    return start_decoding(parts_, rows);
  }

 private:
  // Throws Error where there is no output map.
  void check_output() const;

  DecoderParts parts_;
  DecoderTraits traits_;
};

void AssembledDecoder::check_output() const {
  if (!parts_.output.weight.defined())
    throw Error(config().where() + ": architectures: expected a model that predicts tokens, got " +
                config().strings("architectures").front() + ", which was saved without its output map");
}

Tensor AssembledDecoder::loss(const ModelInput& input, const Tensor& labels,
                              const CrossEntropyOptions& options, Context& context,
                              const Tensor& document_starts) const {
  check_output();
  CrossEntropyOptions capped = options;
  capped.logit_cap = parts_.logit_cap;
  Pass pass(context);
  pass.self = masked_keys(input.mask);
  if (document_starts.defined()) keep_apart(document_starts, pass);
  std::optional<StackState> stored;
  if (context.cache_dtype != CacheDType::f32) stored.emplace(parts_.stack, input.size());
  const Tensor hidden = parts_(input, pass, stored ? &*stored : nullptr);
  const Tensor loss = parts_.output.cross_entropy(parts_.output_input(hidden), labels, capped);
  const bool is_reduced = options.reduction != Reduction::none;
  if (!context.training || !parts_.load_balance || !is_reduced) return loss;
  const LoadBalance& balance = *parts_.load_balance;
  const Tensor mask =
      input.mask.defined() || !input.ids.defined() ? input.mask : without_padding(input.ids, balance.padding);
  return loss +
         load_balancing_loss(pass.collected["router_logits"], balance.chosen, mask) * balance.coefficient;
}

TensorMap AssembledDecoder::forward(const TensorMap& inputs, const ForwardOptions& options,
                                    Context& context) const {
  std::set<std::string> others{"labels"};
  if (traits_.takes_position_ids) others.insert("position_ids");
  const ModelInput input = parts_.embeddings.read(inputs, others);
  const Shape tokens{input.first().size(0), input.first().size(1)};
  const Tensor labels = optional_ids(inputs, "labels", &tokens);
  const Tensor position_ids = optional_ids(inputs, "position_ids", &tokens);
  if (labels.defined()) check_output();

  Collector collector(context, options);
  collector.listen(parts_.stack, "");
  Pass pass(collector.context);
  pass.self = masked_keys(input.mask);
  if (position_ids.defined()) pass.positions = PositionIds(position_ids);
  const Tensor hidden = parts_(input, pass);
  collector.replace_last(parts_.stack, "", hidden);
  TensorMap& outputs = collector.outputs;
  outputs["last_hidden_state"] = hidden;
  if (parts_.output.weight.defined() && collector.wants_logits())
    outputs["logits"] = parts_.logits(hidden, pass.context);  // [B, T, V]
  const std::vector<Tensor>& router_logits = pass.collected["router_logits"];
  for (std::size_t i = 0; i < router_logits.size(); ++i)
    outputs["router_logits." + std::to_string(i)] = router_logits[i];
  const auto& balance = parts_.load_balance;
  if (balance) outputs["aux_loss"] = load_balancing_loss(router_logits, balance->chosen, input.mask);
  if (labels.defined() && outputs.contains("logits")) {
    const CrossEntropyOptions loss_options;
    outputs["loss"] =
        cross_entropy(outputs["logits"], shift_left(labels, loss_options.ignore_index), loss_options);
    if (balance) outputs["loss"] = outputs["loss"] + outputs["aux_loss"] * balance->coefficient;
  }
  return outputs;
}

}  // namespace

Tensor DecoderParts::operator()(const ModelInput& input, Pass& pass, StackState* state) const {
  pass.self.causal = true;
  pass.name = stack.name;
  const Tensor x = embeddings(input, pass);
  return apply_dropout(stack(x, pass, state), stack_dropout, pass.context);
}

Tensor DecoderParts::output_input(const Tensor& hidden) const {
  return output_transform(output_scale == 1.0 ? hidden : hidden * output_scale);
}

Tensor OutputTransform::operator()(const Tensor& x) const {
  if (!dense) return x;
  const Tensor y = (*dense)(x, activation);
  return norm ? (*norm)(y) : y;
}

Tensor ReadOut::output_input(const Tensor& x) const {
  const Tensor y = norm ? (*norm)(x) : x;
  return transform(scale == 1.0 ? y : y * scale);
}

Tensor ReadOut::logits(const Tensor& x) const {
  const Tensor y = output(output_input(x));
  return logit_cap > 0 ? softcap(y, logit_cap) : y;
}

Tensor ReadOut::logits(const Tensor& x, const Tensor& ids) const {
  const Weight& map = output.weight;
  // Products of a quantized map may round x; adapters add to a product or to rows, not to both.
  if (map.stays_quantized() || !map.adapters().empty() || !map.row_adapters().empty())
    return gather(logits(x), x.rank() - 1, ids);
  const Tensor rows = map.embedding(unsqueeze(ids, 0), 1.0, std::nullopt);
  const Tensor bias = output.bias.defined() ? gather(output.bias, 0, ids) : Tensor();
  const Tensor y = linear(output_input(x), reshape(rows, {rows.size(1), rows.size(2)}), bias);
  return logit_cap > 0 ? softcap(y, logit_cap) : y;
}

Tensor DecoderParts::logits(const Tensor& hidden, Context& context) const {
  Tensor all = output(output_input(hidden));
  if (logit_cap > 0) all = softcap(all, logit_cap);
  tap_logits(context, all);
  return all;
}

std::unique_ptr<Model> assemble_decoder(ModelContents files, DecoderParts parts,
                                        const DecoderTraits& traits) {
  return std::make_unique<AssembledDecoder>(std::move(files), std::move(parts), traits);
}

bool is_headless(const Config& json) {
  const std::vector<std::string> architectures = json.strings("architectures");
  const std::string architecture = architectures.empty() ? "" : architectures.front();
  return architecture.ends_with("Model") && !architecture.ends_with("LMHeadModel");
}

}  // namespace heed
