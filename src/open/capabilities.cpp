// The table of capabilities. A new task, command of a model or route is a row of it.
#include "heed/open/capabilities.h"

#include <algorithm>

#include "heed/error.h"
#include "heed/models/kind.h"

namespace heed {
namespace {

using Traits = ModelTraits;
using enum ModelKind;
using enum EncoderHead;

bool every_model(const Traits&) { return true; }
bool texts(const Traits& m) { return m.reads_text(); }
bool texts_by_attention(const Traits& m) { return m.reads_text() && m.attention; }
bool two_towers(const Traits& m) { return m.is(dual_encoder); }
bool continues_text(const Traits& m) { return m.is(decoder) && m.reads_text(); }
bool translates(const Traits& m) { return m.is(encoder_decoder) && m.reads_text(); }
bool captions(const Traits& m) { return m.is(encoder_decoder) && m.reads_images(); }
bool fills(const Traits& m) { return m.is_encoder(masked_lm) && m.reads_text(); }
bool labels_texts(const Traits& m) { return m.is_encoder(sequence) && m.reads_text(); }
bool ranks(const Traits& m) { return labels_texts(m) && m.labels == 1; }
bool tags(const Traits& m) { return m.is_encoder(token) && m.reads_text(); }
bool answers(const Traits& m) { return m.is_encoder(span) && m.reads_text(); }
bool encodes_images(const Traits& m) { return m.is(encoder) && m.reads_images(); }
bool labels_images(const Traits& m) { return encodes_images(m) && m.head != none; }
bool labels_sound(const Traits& m) { return m.is_encoder(sequence) && m.reads_sound(); }
bool transcribes_by_decoder(const Traits& m) { return m.is(encoder_decoder) && m.reads_sound(); }
bool transcribes(const Traits& m) {
  return transcribes_by_decoder(m) || (m.is_encoder(ctc) && m.reads_sound());
}
bool embeds(const Traits& m) { return texts(m) || two_towers(m); }
bool embeds_images(const Traits& m) { return encodes_images(m) || two_towers(m); }
bool is_served(const Traits& m) { return embeds(m) || transcribes(m); }

// Of encoders of images and sounds, and of models of texts.
bool encodes_files(const Traits& m) { return m.is(encoder) && !m.reads_text(); }
bool attends(const Traits& m) { return encodes_images(m) || texts_by_attention(m); }
bool is_explored(const Traits& m) { return encodes_files(m) || texts_by_attention(m); }
bool has_heads(const Traits& m) { return encodes_files(m) || (texts(m) && m.self_attention); }
bool labels_files(const Traits& m) { return encodes_files(m) && m.head == sequence; }
bool predicts_tokens(const Traits& m) { return texts(m) && !m.is(encoder); }
bool has_lens(const Traits& m) { return labels_files(m) || (predicts_tokens(m) && m.self_attention); }
bool is_patched(const Traits& m) { return labels_files(m) || predicts_tokens(m); }

constexpr std::optional<Task> kNoTask = std::nullopt;

// Main tasks first: the first row that suits a model is what messages offer.
constexpr Capability kCapabilities[] = {
    // task, command, name and route of the server, what it needs
    {kNoTask, "chat", "chat", "/v1/chat/completions", continues_text, true},
    {Task::generate, "generate", "completion", "/v1/completions", continues_text},
    {kNoTask, "evaluate --texts", "", "", continues_text},
    {Task::translate, "translate", "translation", "/translate", translates},
    {kNoTask, "evaluate --source", "", "", translates},
    {kNoTask, "train --init", "", "", translates},
    {Task::fill, "fill", "", "", fills},
    {kNoTask, "", "reranking", "/rerank", ranks},
    {Task::classify, "classify", "classification", "/predict", labels_texts},
    {Task::classify_images, "classify", "", "", labels_images},
    {Task::classify_images, "classify --labels", "", "", two_towers},
    {Task::classify_sounds, "classify", "", "", labels_sound},
    {Task::tag, "classify", "token_classification", "/tag", tags},
    {Task::answer, "answer", "", "", answers},
    {Task::transcribe, "transcribe", "transcription", "/v1/audio/transcriptions", transcribes},
    {kNoTask, "translate --input", "", "", transcribes_by_decoder},
    {kNoTask, "evaluate --data", "", "",
     [](const Traits& m) { return labels_texts(m) || tags(m) || answers(m) || transcribes(m); }},
    {Task::caption, "caption", "", "", captions},
    {Task::embed, "embed", "embedding", "/v1/embeddings", embeds},
    {kNoTask, "", "sparse_embedding", "/embed_sparse", fills},
    {Task::embed_images, "embed --image", "", "", embeds_images},
    {Task::attention, "", "attention", "/attend", texts_by_attention},
    {kNoTask, "attend", "", "", attends},
    {kNoTask, "explore", "", "", is_explored},
    {kNoTask, "heads", "", "", has_heads},
    {kNoTask, "lens", "", "", has_lens},
    {kNoTask, "ablate", "", "", [](const Traits& m) { return has_heads(m) && is_patched(m); }},
    {kNoTask, "patch", "", "", is_patched},
    {kNoTask, "attribute", "", "", has_heads},
    {kNoTask, "tokenize", "", "", texts},
    {kNoTask, "serve", "", "", is_served},
    {kNoTask, "forward", "", "", every_model},
    {kNoTask, "doctor", "", "", every_model},
};

}  // namespace

const char* verb(Task task) {
  switch (task) {
    case Task::generate: return "continue text";
    case Task::translate: return "translate";
    case Task::fill: return "fill masks";
    case Task::classify: return "classify texts";
    case Task::classify_images: return "classify images";
    case Task::classify_sounds: return "classify sounds";
    case Task::tag: return "tag tokens";
    case Task::answer: return "answer questions";
    case Task::embed: return "embed texts";
    case Task::embed_images: return "embed images";
    case Task::attention: return "show attention";
    case Task::transcribe: return "transcribe sound";
    case Task::caption: return "caption images";
  }
  HEED_ASSERT(false, "unknown task");
}

std::span<const Capability> capabilities() { return kCapabilities; }

std::vector<Task> tasks_of(const Model& model) {
  const ModelTraits traits = traits_of(model);
  std::vector<Task> tasks;
  for (const Capability& one : kCapabilities) {
    if (one.task && one.suits(traits)) tasks.push_back(*one.task);
  }
  return tasks;
}

bool can(const Model& model, Task task) {
  const std::vector<Task> tasks = tasks_of(model);
  return std::find(tasks.begin(), tasks.end(), task) != tasks.end();
}

std::vector<std::string> commands_for(const Model& model) {
  const ModelTraits traits = traits_of(model);
  std::vector<std::string> commands;
  for (const Capability& one : kCapabilities) {
    if (!one.command.empty() && !one.needs_chat && one.suits(traits)) commands.emplace_back(one.command);
  }
  return commands;
}

std::vector<Capability> served_for(const Model& model, bool has_chat) {
  const ModelTraits traits = traits_of(model);
  std::vector<Capability> served;
  for (const Capability& one : kCapabilities) {
    if (!one.route.empty() && one.suits(traits) && (has_chat || !one.needs_chat)) served.push_back(one);
  }
  return served;
}

}  // namespace heed
