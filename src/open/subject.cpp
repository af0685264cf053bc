// Texts, ids, files and tensors as inputs of models.
#include "heed/open/subject.h"

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <utility>

#include "files/input_file.h"
#include "heed/error.h"
#include "heed/models/kind.h"
#include "heed/open/loaded_model.h"
#include "heed/ops/loss.h"
#include "heed/tasks/batches.h"
#include "inspect/patch_grid.h"
#include "inspect/token_input.h"
#include "tasks/file_input.h"

namespace heed {
namespace {

const std::int64_t kIgnored = CrossEntropyOptions().ignore_index;

[[noreturn]] void fail(const ModelParts& model, const std::string& message) {
  throw Error((model.where.empty() ? "" : model.where + ": ") + message);
}

[[noreturn]] void fail_without_tokens(const ModelParts& model, const char* what) {
  fail(model, std::string("expected a ") + what + " with at least one token, got none");
}

std::vector<std::string> labels_of(const ModelParts& model, const std::vector<std::int64_t>& ids,
                                   const SubjectOptions& options) {
  if (!options.label) return inspect::token_names(model.tokenizer, ids);
  std::vector<std::string> labels;
  for (const std::int64_t id : ids) labels.push_back(options.label(id));
  return labels;
}

std::vector<std::int64_t> ids_in(const TensorMap& tensors, const char* name) {
  const auto found = tensors.find(name);
  return found == tensors.end() ? std::vector<std::int64_t>()
                                : found->second.to(DType::i64).to_vector<std::int64_t>();
}

// After each token the next; after the last, none.
std::vector<std::int64_t> shifted(const std::vector<std::int64_t>& ids) {
  std::vector<std::int64_t> following(ids.begin() + 1, ids.end());
  following.push_back(-1);
  return following;
}

// Of a model that reads tokens: the labels of the stack's own positions.
Subject stack_subject(const char* kind, const Encoding& text) {
  Subject subject;
  subject.inputs["input_ids"] = inspect::one_row(text.ids);
  subject.tokens[kind] = {text.tokens, text.tokens};
  subject.source = subject.read = text.ids;
  return subject;
}

Subject encoder_subject(const EncoderModel& encoder, const ModelParts& model, const Encoding& text) {
  Subject subject = stack_subject("encoder", text);
  if (encoder.type_vocab_size() > 1) subject.inputs["token_type_ids"] = inspect::one_row(text.type_ids);
  subject.following.assign(text.ids.size(), -1);
  const auto mask = model.tokenizer != nullptr ? model.tokenizer->mask_id() : std::nullopt;
  const auto found = mask ? std::find(text.ids.begin(), text.ids.end(), *mask) : text.ids.end();
  if (found != text.ids.end()) subject.mask_position = found - text.ids.begin();
  return subject;
}

// The labels of parts of an image or a sound, and what they are parts of.
Subject file_subject(const ModelParts& model, tasks::FileInput made, const std::string& name) {
  const InputSpec spec = model.model.input();
  const auto grid = inspect::patch_grid(spec, made.tensors);
  if (!grid)
    throw Error(name + ": expected at least one " + (spec.is_image() ? "patch" : "frame") + ", got " +
                made.tensors.at(spec.name).str());
  Subject subject;
  const std::vector<std::string> labels = inspect::part_labels(spec, made.tensors, *grid);
  subject.tokens["encoder"] = {labels, labels};
  subject.title = name;
  InputImage seen;
  if (made.seen.defined()) seen = {made.seen.size(1), made.seen.size(0), made.seen.to_vector<std::uint8_t>()};
  subject.image = inspect::picture_of_parts(spec, made.tensors, *grid, std::move(seen));
  if (const auto& sound = model.processor->sound) {
    const std::int64_t samples = sound->window().value_or(made.tensors.at(spec.name).numel());
    subject.sound.seconds = static_cast<double>(samples) / static_cast<double>(sound->rate());
  }
  subject.inputs = std::move(made.tensors);
  return subject;
}

ModelInput batch_of(std::span<const Encoding> texts, std::int64_t pad_id, bool type_ids) {
  std::vector<std::size_t> all(texts.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  return padded_batch(texts, all, pad_id, type_ids);
}

}  // namespace

ModelParts parts_of(const LoadedModel& model) {
  const bool reads_files = model.model().input().kind != InputKind::tokens;
  return {model.model(), model.model().vocab_size() > 0 ? &model.tokenizer() : nullptr,
          reads_files ? &model.file_processor() : nullptr, model.directory()};
}

Subject subject_of_text(const ModelParts& model, const std::string& text,
                        const std::optional<std::string>& pair, const std::optional<std::string>& target,
                        const SubjectOptions& options) {
  const ModelTraits traits = traits_of(model.model);
  if (pair && !traits.is(ModelKind::encoder))
    fail(model, "pair: expected an encoder, got " + kind_of(model.model));
  if (target && !traits.is(ModelKind::encoder_decoder))
    fail(model, "target: expected an encoder-decoder, got " + kind_of(model.model));
  const Encoding encoding = pair ? model.tokenizer->encode_pair(text, *pair) : model.tokenizer->encode(text);
  std::optional<std::vector<std::int64_t>> ids;
  if (target) ids = model.tokenizer->encode_target(*target).ids;
  Subject subject = subject_of_tokens(model, encoding, ids, options);
  subject.title = pair ? text + " / " + *pair : target ? text + " → " + model.tokenizer->decode(*ids) : text;
  return subject;
}

Subject subject_of_tokens(const ModelParts& model, const Encoding& text,
                          const std::optional<std::vector<std::int64_t>>& target,
                          const SubjectOptions& options) {
  if (text.ids.empty()) fail_without_tokens(model, "text");
  if (const auto* encoder = as<EncoderModel>(model.model)) return encoder_subject(*encoder, model, text);
  if (as<DecoderModel>(model.model) != nullptr) {
    Subject subject = stack_subject("decoder", text);
    subject.following = shifted(text.ids);
    return subject;
  }
  if (as<EncoderDecoderModel>(model.model) == nullptr)
    fail(model, "expected a model that reads texts, got " + kind_of(model.model));
  if (!target) fail(model, "target: missing (the decoder of " + model.model.family() + " reads one)");
  Subject subject = stack_subject("encoder", text);
  add_target(subject, model, *target, options);
  return subject;
}

Subject subject_of_ids(const ModelParts& model, const std::vector<std::int64_t>& ids,
                       const std::optional<std::vector<std::int64_t>>& target,
                       const SubjectOptions& options) {
  Encoding text;
  text.ids = ids;
  text.tokens = labels_of(model, ids, options);
  text.type_ids.resize(ids.size());
  return subject_of_tokens(model, text, target, options);
}

Subject subject_of_file(const ModelParts& model, const std::string& file) {
  const std::string name = shown_name(file);
  Subject subject = file_subject(model, tasks::file_input(model.model.input(), *model.processor, file), name);
  subject.title = std::filesystem::path(name).filename().string();
  return subject;
}

Subject subject_of_file(const ModelParts& model, std::string_view bytes, const std::string& name,
                        const tasks::FileLimits& limits) {
  return file_subject(model, tasks::file_input(model.model.input(), *model.processor, bytes, name, limits),
                      name);
}

Subject subject_of_tensors(const ModelParts& model, TensorMap tensors, const std::string& where) {
  for (const auto& [name, tensor] : tensors) {
    if (tensor.shape().rank() > 0 && tensor.size(0) != 1)
      throw Error(where + ": expected one row in " + name + ", got " + std::to_string(tensor.size(0)));
  }
  Subject subject;
  subject.source = subject.read = ids_in(tensors, "input_ids");
  const std::vector<std::string> labels = inspect::token_names(model.tokenizer, subject.source);
  const auto* both = as<EncoderDecoderModel>(model.model);
  if (both == nullptr) {
    const bool decodes = as<DecoderModel>(model.model) != nullptr;
    if (!labels.empty()) subject.tokens[decodes ? "decoder" : "encoder"] = {labels, labels};
    subject.inputs = std::move(tensors);
    return subject;
  }
  const std::vector<std::int64_t> target = ids_in(tensors, "labels");
  subject.read = ids_in(tensors, "decoder_input_ids");
  if (subject.read.empty() && !target.empty())
    subject.read = both->decoder_inputs(inspect::one_row(target), kIgnored).to_vector<std::int64_t>();
  if (subject.read.empty())
    throw Error(where + ": expected decoder_input_ids or labels for the decoder of " + both->family() +
                ", got neither (add one of them to the file)");
  subject.following = target;
  subject.inputs = std::move(tensors);
  subject.inputs["decoder_input_ids"] = inspect::one_row(subject.read);
  subject.tokens = inspect::encoder_decoder_tokens(
      labels, inspect::token_names(model.tokenizer, target.empty() ? subject.read : target),
      inspect::token_names(model.tokenizer, subject.read));
  return subject;
}

void add_target(Subject& subject, const ModelParts& model, const std::vector<std::int64_t>& target,
                const SubjectOptions& options) {
  const auto& both = *as<EncoderDecoderModel>(model.model);
  std::vector<std::int64_t> produced = target;
  std::vector<std::string> labels = labels_of(model, target, options);
  if (options.with_end && (produced.empty() || produced.back() != both.eos_id())) {
    produced.push_back(both.eos_id());
    labels.emplace_back("…");
  }
  if (produced.empty()) fail_without_tokens(model, "target");
  subject.read = both.decoder_inputs(inspect::one_row(produced), kIgnored).to_vector<std::int64_t>();
  subject.following = std::move(produced);
  subject.inputs["decoder_input_ids"] = inspect::one_row(subject.read);
  const auto source = subject.tokens.find("encoder");
  subject.tokens = inspect::encoder_decoder_tokens(
      source == subject.tokens.end() ? std::vector<std::string>() : source->second.keys, labels,
      labels_of(model, subject.read, options));
}

TensorMap side_by_side(std::span<const Encoding> texts, std::int64_t pad_id, bool type_ids) {
  const ModelInput batch = batch_of(texts, pad_id, type_ids);
  TensorMap inputs{{"input_ids", batch.ids}, {"attention_mask", batch.mask}};
  if (type_ids) inputs["token_type_ids"] = batch.type_ids;
  return inputs;
}

// A decoder needs no padding id: its causal mask hides the padding.
TensorMap side_by_side(const Model& model, std::span<const Encoding> texts,
                       std::span<const Encoding> targets) {
  const auto* encoder = as<EncoderModel>(model);
  const auto* both = as<EncoderDecoderModel>(model);
  const std::int64_t pad_id = encoder != nullptr ? encoder->pad_id() : both != nullptr ? both->pad_id() : 0;
  TensorMap inputs = side_by_side(texts, pad_id, encoder != nullptr && encoder->type_vocab_size() > 1);
  if (targets.empty() || both == nullptr) return inputs;
  const ModelInput batch = batch_of(targets, pad_id, false);
  const Tensor labels = batch.ids.clone();
  for (std::int64_t i = 0; i < labels.numel(); ++i) {
    if (batch.mask.data<std::int64_t>()[i] == 0) labels.data<std::int64_t>()[i] = kIgnored;
  }
  inputs["labels"] = labels;
  inputs["decoder_input_ids"] = both->decoder_inputs(labels, kIgnored);
  return inputs;
}

}  // namespace heed
