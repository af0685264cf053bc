// Texts, files and prompts as inputs, and the names of their positions, tokens and labels.
#include "heed/analyses/analyzed.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/strings.h"
#include "files/input_file.h"
#include "heed/autograd.h"
#include "heed/models/kind.h"
#include "heed/ops/loss.h"
#include "inspect/patch_grid.h"
#include "inspect/token_input.h"
#include "tasks/file_input.h"

namespace heed {

const char* AnalyzedModel::reads() const {
  return !reads_files() ? "text" : model->input().is_image() ? "image" : "sound";
}

void AnalyzedModel::refuse_for_files(const char* option, bool given) const {
  if (given && reads_files())
    throw OptionError(option, "expected a model that reads text, got " + kind_of(*model));
}

std::vector<std::string> AnalyzedModel::tokens(const std::vector<std::int64_t>& ids) const {
  return inspect::token_names(tokenizer(), ids);
}

std::vector<std::string> AnalyzedModel::shown(const std::vector<std::string>& tokens) const {
  return inspect::shown_tokens(tokens, tokenizer());
}

std::string AnalyzedModel::shown(std::int64_t id) const { return shown(tokens({id})).front(); }

AnalyzedModel::AnalyzedModel(LoadedModel given, std::string given_name)
    : opened(std::move(given)), name(std::move(given_name)), model(&opened.model()) {
  if (const auto* dual = as<DualEncoderModel>(*model)) model = &dual->image();
  if (reads_files() && as<EncoderModel>(*model) == nullptr)
    throw Error(opened.directory() +
                ": expected a model that reads text, or an encoder of images or sounds, got " +
                kind_of(*model));
}

AnalyzedInput text_input(const AnalyzedModel& model, const std::string& text,
                         const std::optional<std::string>& target) {
  const auto* both = as<EncoderDecoderModel>(*model.model);
  if (both == nullptr && target)
    throw OptionError("target", "expected an encoder-decoder, got " + model.model->family());
  if (both != nullptr && !target)
    throw OptionError("target", "missing (the decoder of " + model.model->family() + " reads a target text)");
  const std::vector<std::int64_t> ids = model.tokenizer()->encode(text).ids;
  if (ids.empty()) throw Error("missing text (give one with at least one token)");
  AnalyzedInput input = ids_input(ids, target ? text + " → " + *target : text);
  if (both == nullptr) return input;
  const Tensor labels = inspect::one_row(model.tokenizer()->encode_target(*target).ids);
  const Tensor fed = both->decoder_inputs(labels, CrossEntropyOptions().ignore_index);
  input.inputs["attention_mask"] = Tensor::full({1, std::ssize(ids)}, 1, DType::i64);
  input.inputs["labels"] = labels;
  input.inputs["decoder_input_ids"] = fed;
  input.ids = fed.to_vector<std::int64_t>();
  return input;
}

AnalyzedInput ids_input(const std::vector<std::int64_t>& ids, std::string title) {
  return {.inputs = {{"input_ids", inspect::one_row(ids)}},
          .title = std::move(title),
          .ids = ids,
          .source_ids = ids};
}

AnalyzedInput file_input(const AnalyzedModel& model, const std::string& file) {
  const InputSpec input = model.model->input();
  AnalyzedInput result{.inputs = tasks::file_input(input, model.opened.file_processor(), file).tensors,
                       .title = shown_name(file)};
  const auto grid = inspect::patch_grid(input, result.inputs);
  if (!grid)
    throw Error(shown_name(file) + ": expected at least one part, got " + result.inputs.at(input.name).str());
  result.parts = inspect::part_labels(input, result.inputs, *grid);
  return result;
}

namespace {

// Calls `f`; an error says first where it was.
template <class F>
void with_row(const std::string& where, const F& f) {
  if (where.empty()) return f();
  try {
    f();
  } catch (const Error& error) {
    if (std::string(error.what()).starts_with(where)) throw;
    throw Error(where + ": " + error.what());
  }
}

}  // namespace

std::vector<AnalyzedInput> prompt_inputs(const AnalyzedModel& model, std::span<const Prompt> prompts,
                                         const std::optional<std::string>& target) {
  std::vector<AnalyzedInput> inputs;
  for (const Prompt& prompt : prompts) {
    with_row(prompt.where, [&] {
      AnalyzedInput& input =
          inputs.emplace_back(text_input(model, prompt.clean, prompt.target ? prompt.target : target));
      input.where = prompt.where;
      input.a = prompt.a;
      input.b = prompt.b;
    });
  }
  return inputs;
}

void for_each_input(std::span<const AnalyzedInput> inputs,
                    const std::function<void(const AnalyzedInput& input)>& measure) {
  for (const AnalyzedInput& input : inputs) with_row(input.where, [&] { measure(input); });
}

std::size_t index_of_kind(const std::string& kind, const std::vector<std::string>& kinds) {
  const auto found = std::find(kinds.begin(), kinds.end(), kind);
  if (found != kinds.end()) return static_cast<std::size_t>(found - kinds.begin());
  throw OptionError("kind", kinds.size() == 1
                                ? "expected " + kinds.front() + ", the only kind of this model, got " + kind
                                : "expected " + alternatives(kinds) + ", got " + kind);
}

AttentionKind analyzed_kind(const std::string& kind, const Model& model, const char* where) {
  const auto* both = as<EncoderDecoderModel>(model);
  if (both != nullptr && !both->has_self_attention())
    throw Error(std::string(where) + ": expected a model with heads and residual streams, got " +
                model.family() + " (heed attend shows its attention)");
  const std::vector<AttentionKind> kinds = attention_kinds(model);
  std::vector<std::string> names;
  for (const AttentionKind& one : kinds) names.push_back(one.name);
  const bool decodes = both != nullptr || as<DecoderModel>(model) != nullptr;
  return kinds[index_of_kind(!kind.empty() ? kind : decodes ? "decoder" : "encoder", names)];
}

std::vector<std::string> labels_of(const Model& model) {
  const auto* encoder = as<EncoderModel>(model);
  const bool has = encoder != nullptr &&
                   (encoder->head() == EncoderHead::sequence || encoder->head() == EncoderHead::token);
  return has ? encoder->labels() : std::vector<std::string>();
}

std::vector<std::string> required_labels(const AnalyzedModel& model, const char* where) {
  const auto* encoder = as<EncoderModel>(*model.model);
  if (encoder == nullptr || encoder->head() != EncoderHead::sequence)
    throw Error(std::string(where) + ": expected a classifier, got " + kind_of(*model.model) +
                " without labels");
  return encoder->labels();
}

std::string label_name(const std::vector<std::string>& labels, std::int64_t label) {
  const auto index = static_cast<std::size_t>(label);
  return index < labels.size() ? labels[index] : std::to_string(label);
}

std::int64_t predicted_label(const AnalyzedModel& model, const TensorMap& inputs) {
  const NoGradients guard;
  const std::vector<float> logits = model.model->forward(inputs).at("logits").to_vector<float>();
  return std::max_element(logits.begin(), logits.end()) - logits.begin();
}

}  // namespace heed
