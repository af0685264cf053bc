// Forward pass and loss of two towers, each of which is an encoder as it is.
#include "models/encoder.h"

#include "heed/ops/elementwise.h"
#include "heed/ops/loss.h"
#include "heed/ops/matmul.h"
#include "heed/ops/reduce.h"
#include "heed/ops/shape.h"
#include "models/assembled.h"
#include "models/labels.h"
#include "models/named_tensors.h"

namespace heed {
namespace {

Tensor unit_rows(const Tensor& x) { return x / sqrt(sum(x * x, 1, true)); }

class AssembledDualEncoder final : public Assembled<DualEncoderModel> {
 public:
  AssembledDualEncoder(ModelContents files, DualEncoderParts parts)
      : Assembled(std::move(files)), parts_(std::move(parts)) {}

  const EncoderModel& text() const override { return *parts_.text.model; }
  const EncoderModel& image() const override { return *parts_.image.model; }
  PairLoss pair_loss() const override { return parts_.loss; }
  InputSpec input() const override { return image().input(); }
  std::optional<std::int64_t> max_positions() const override { return text().max_positions(); }
  std::int64_t vocab_size() const override { return text().vocab_size(); }
  Tensor logits(const Tensor& texts, const Tensor& images) const override {
    return scaled(unit_rows(texts), unit_rows(images));
  }
  void steer(const std::string& stack, std::int64_t layer, const Tensor& vector) override {
    (stack == parts_.text.stack ? parts_.text : parts_.image).model->steer(stack, layer, vector);
  }
  TensorMap forward(const TensorMap& inputs, const ForwardOptions& options, Context& context) const override;

 private:
  Tensor scaled(const Tensor& texts, const Tensor& images) const;
  Tensor loss_of(const Tensor& logits) const;
  DualEncoderParts parts_;
};

// Of vectors of length 1.
Tensor AssembledDualEncoder::scaled(const Tensor& texts, const Tensor& images) const {
  const Tensor cosines = matmul(texts, transpose(images, 0, 1));
  const Tensor scaled = cosines * exp(reshape(parts_.logit_scale, {1}));
  return parts_.logit_bias.defined() ? scaled + reshape(parts_.logit_bias, {1}) : scaled;
}

// Of square logits, whose diagonal are the pairs.
Tensor AssembledDualEncoder::loss_of(const Tensor& logits) const {
  const std::int64_t count = logits.size(0);
  Tensor pairs = Tensor::empty({count}, DType::i64), are_pairs = Tensor::zeros({count, count});
  for (std::int64_t i = 0; i < count; ++i) {
    pairs.data<std::int64_t>()[i] = i;
    are_pairs.data<float>()[i * count + i] = 1;
  }
  if (parts_.loss == PairLoss::sigmoid)  // summed over images, as in the paper
    return sequence_loss(logits, are_pairs, LabelProblem::multi_label, {}) * static_cast<double>(count);
  return (cross_entropy(logits, pairs) + cross_entropy(transpose(logits, 0, 1).contiguous(), pairs)) * 0.5;
}

TensorMap AssembledDualEncoder::forward(const TensorMap& inputs, const ForwardOptions& options,
                                        Context& context) const {
  const ModelInput texts = token_inputs(inputs, vocab_size(), value_names(input())),
                   images = values_input(inputs, input(), {"input_ids", "attention_mask"});
  Collector collector(context, options);
  TensorMap& outputs = collector.outputs;
  const auto run = [&](const Tower& tower, const ModelInput& input, const std::string& prefix) {
    collector.listen(tower.stack, static_cast<std::size_t>(tower.layers), prefix);
    const Tensor hidden = tower.model->encode(input, collector.context);
    outputs[prefix + "last_hidden_state"] = hidden;
    return unit_rows(outputs[prefix + "pooler_output"] =
                         tower.model->vectors(hidden, input, collector.context));
  };
  const Tensor text = outputs["text_embeds"] = run(parts_.text, texts, "text_model_output.");
  const Tensor image = outputs["image_embeds"] = run(parts_.image, images, "vision_model_output.");
  const Tensor logits = outputs["logits_per_text"] = scaled(text, image);
  outputs["logits_per_image"] = transpose(logits, 0, 1);
  if (logits.size(0) == logits.size(1)) outputs["loss"] = loss_of(logits);
  return outputs;
}

}  // namespace

std::unique_ptr<Model> assemble_dual_encoder(ModelContents files, DualEncoderParts parts) {
  return std::make_unique<AssembledDualEncoder>(std::move(files), std::move(parts));
}

}  // namespace heed
