// Candidates of decoders, and of every head of encoders.
#include "explore/views/views.h"

#include <bit>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>

#include "core/base64.h"
#include "heed/analyses/analyzed.h"
#include "heed/error.h"
#include "heed/models/kind.h"
#include "heed/ops/shape.h"
#include "heed/tasks/classify.h"
#include "inspect/token_input.h"

namespace heed::explore {
namespace {

using nlohmann::json;

std::optional<EncoderHead> head_of(const ExploredModel& model) {
  const auto* encoder = as<EncoderModel>(model.model());
  return encoder == nullptr ? std::nullopt : std::optional(encoder->head());
}

// [1, T, V] -> [T, V]
Tensor without_batch(const Tensor& x) {
  const Tensor rows = x.to(DType::f32).contiguous();
  return reshape(rows, {rows.numel() / rows.size(rows.rank() - 1), rows.size(rows.rank() - 1)});
}

PredictedRows each_position(const Tensor& logits, const std::string& of) {
  PredictedRows rows{without_batch(logits), {}, {}};
  for (std::int64_t i = 0; i < rows.logits.size(0); ++i) {
    rows.positions.emplace_back(i);
    rows.of.push_back(of);
  }
  return rows;
}

PredictedRows mask_positions(const ExploredModel& model, const ExploredText& text, const Tensor& logits) {
  PredictedRows rows;
  std::vector<Tensor> chosen;
  const auto mask = model.tokenizer()->mask_id();
  for (std::size_t i = 0; mask && i < text.source.size(); ++i) {
    if (text.source[i] != *mask) continue;
    const auto position = static_cast<std::int64_t>(i);
    chosen.push_back(slice(without_batch(logits), 0, position, position + 1));
    rows.positions.emplace_back(position);
    rows.of.emplace_back("encoder");
  }
  if (!chosen.empty()) rows.logits = concat(chosen, 0);
  return rows;
}

// The name of what a logit is for; `labels` are those of a classifier or tagger.
std::string name_of_candidate(const ExploredModel& model, const ExploredText& text,
                              const std::vector<std::string>& labels, std::int64_t id) {
  if (!text.labels.empty()) return text.labels[static_cast<std::size_t>(id)];
  const auto head = head_of(model);
  if (head == EncoderHead::span) return model.token(text.source[static_cast<std::size_t>(id)]);
  if (head == EncoderHead::sequence || head == EncoderHead::token) return label_name(labels, id);
  return model.token(id);
}

// Softmax gives that of one label among several; other heads have their own.
json probability_of(const ExploredModel& model, const ExploredText& text, const inspect::RankedToken& one) {
  const double alone = 1 / (1 + std::exp(-static_cast<double>(one.logit)));
  if (!text.labels.empty() && model.dual()->pair_loss() == PairLoss::sigmoid) return alone;
  if (head_of(model) != EncoderHead::sequence) return one.probability;
  switch (label_function(*as<EncoderModel>(model.model()))) {
    case LabelFunction::softmax: return one.probability;
    case LabelFunction::sigmoid: return alone;
    case LabelFunction::none: return nullptr;
  }
  HEED_ASSERT(false, "unknown function");
}

}  // namespace

PredictedRows predicted_rows(const ExploredModel& model, const ExploredText& text, const TensorMap& outputs,
                             Context& context) {
  if (!text.labels.empty())
    return {label_logits(model, text, outputs.at("last_hidden_state"), context), {std::nullopt}, {"encoder"}};
  const auto head = head_of(model);
  if (head == EncoderHead::none) return {};
  if (head == EncoderHead::span) {
    const std::vector<Tensor> both{without_batch(outputs.at("start_logits")),
                                   without_batch(outputs.at("end_logits"))};
    return {concat(both, 0), {std::nullopt, std::nullopt}, {"start", "end"}};
  }
  const Tensor& logits = outputs.at("logits");
  if (head == EncoderHead::masked_lm) return mask_positions(model, text, logits);
  if (head == EncoderHead::sequence) return {without_batch(logits), {std::nullopt}, {"encoder"}};
  return each_position(logits, head ? "encoder" : "decoder");
}

std::vector<std::vector<inspect::RankedToken>> ranked(const PredictedRows& rows, std::int64_t count) {
  if (!rows.logits.defined()) return {};
  return inspect::ranked_tokens(rows.logits, count);
}

json predictions_json(const ExploredModel& model, const ExploredText& text, const PredictedRows& rows,
                      const std::vector<std::vector<inspect::RankedToken>>& ranked, const Tensor& before) {
  const std::vector<std::string> labels = labels_of(model.model());
  json list = json::array();
  for (std::size_t row = 0; row < ranked.size(); ++row) {
    json entry{
        {"position", nullptr}, {"token", nullptr}, {"of", rows.of[row]}, {"candidates", json::array()}};
    if (rows.positions[row]) {
      entry["position"] = *rows.positions[row];
      entry["token"] =
          text.tokens.at(rows.of[row]).queries.at(static_cast<std::size_t>(*rows.positions[row]));
    }
    for (const inspect::RankedToken& one : ranked[row]) {
      json candidate{{"token", name_of_candidate(model, text, labels, one.id)},
                     {"id", one.id},
                     {"probability", probability_of(model, text, one)},
                     {"logit", one.logit}};
      if (before.defined())
        candidate["change"] =
            one.logit - before.data<float>()[static_cast<std::int64_t>(row) * before.size(1) + one.id];
      entry["candidates"].push_back(std::move(candidate));
    }
    list.push_back(std::move(entry));
  }
  return list;
}

void check_labels(const ExploredModel& model, const std::vector<std::string>& labels) {
  if (!labels.empty() && model.dual() == nullptr)
    throw Error("labels: expected a model of texts and images with a tokenizer, such as clip, got " +
                model.name());
}

Tensor label_logits(const ExploredModel& model, const ExploredText& text, const Tensor& hidden,
                    Context& context) {
  const DualEncoderModel& dual = *model.dual();
  const TensorMap& image = text.inputs;
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
  text.tokens["text"] = {tokens, tokens};
}

std::string row_bytes(const Tensor& x) {
  static_assert(std::endian::native == std::endian::little);
  const Tensor plain = x.to(DType::f32).contiguous();
  const auto size = static_cast<std::size_t>(plain.numel()) * sizeof(float);
  return encode_base64(std::string_view(reinterpret_cast<const char*>(plain.raw_data()), size));
}

}  // namespace heed::explore
