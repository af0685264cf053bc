// Compares an image with labels.
#include "explore/labels.h"

#include "heed/error.h"
#include "heed/ops/shape.h"

namespace heed::explore {

void check_labels(const ExploredModel& model, const std::vector<std::string>& labels) {
  if (!labels.empty() && model.dual() == nullptr)
    throw Error("labels: expected a model of texts and images with a tokenizer, such as clip, got " +
                model.name());
}

Tensor label_logits(const ExploredModel& model, const ExploredText& text, const Tensor& hidden,
                    Context& context) {
  const DualEncoderModel& dual = *model.dual();
  const TensorMap& image = text.input.tensors;
  const InputSpec input = dual.input();
  const ModelInput parts{.values = image.at(input.name),
                         .grids = image.contains("spatial_shapes") ? image.at("spatial_shapes") : Tensor()};
  const Tensor seen = dual.image().vectors(hidden, parts, context);
  std::vector<Tensor> read;
  for (const std::string& label : text.labels) {
    const ModelInput tokens{.ids = inspect::one_row(model.label_ids(label))};
    read.push_back(dual.text().vectors(dual.text().encode(tokens, context), tokens, context));
  }
  return transpose(dual.logits(concat(read, 0), seen), 0, 1).contiguous();
}

void add_label(const ExploredModel& model, ExploredText& text, std::size_t index,
               const RecordOptions& options, AttentionRecord& record) {
  const std::vector<std::int64_t> ids = model.label_ids(text.labels[index]);
  RecordOptions of_text = options;
  of_text.kinds = {model.kind_named("text")};
  AttentionRecord own =
      record_attention(model.dual()->text(), {{"input_ids", inspect::one_row(ids)}}, of_text);
  record.layers.insert(record.layers.end(), std::make_move_iterator(own.layers.begin()),
                       std::make_move_iterator(own.layers.end()));
  std::vector<std::string> tokens;
  for (const std::int64_t id : ids) tokens.push_back(model.token(id));
  text.input.tokens["text"] = {tokens, tokens};
}

}  // namespace heed::explore
