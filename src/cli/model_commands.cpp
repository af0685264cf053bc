// The only mapping from a model's kind to the commands that run it.
#include "cli/model_commands.h"

#include "heed/error.h"

namespace heed::cli {
namespace {

struct ModelKind {
  const char* name;
  std::vector<std::string> commands;
};

bool takes_features(const Model& model) {
  const auto* encoder_decoder = dynamic_cast<const EncoderDecoderModel*>(&model);
  return encoder_decoder != nullptr && encoder_decoder->takes_features();
}

bool has_self_attention(const Model& model) {
  const auto* encoder_decoder = dynamic_cast<const EncoderDecoderModel*>(&model);
  return encoder_decoder == nullptr || encoder_decoder->has_self_attention();
}

bool has_attention(const Model& model) {
  const auto* encoder_decoder = dynamic_cast<const EncoderDecoderModel*>(&model);
  return has_self_attention(model) || encoder_decoder->has_cross_attention();
}

// The commands that look into a model of texts.
std::vector<std::string> analyses_of(const Model& model) {
  const bool encoder = dynamic_cast<const EncoderModel*>(&model) != nullptr;
  std::vector<std::string> commands;
  if (has_attention(model)) commands = {"attend", "explore"};
  if (has_self_attention(model)) commands.emplace_back("heads");
  if (has_self_attention(model) && !encoder) commands.emplace_back("lens");
  if (!encoder) commands.emplace_back("patch");
  commands.emplace_back("tokenize");
  return commands;
}

ModelKind encoder_kind(EncoderHead head) {
  switch (head) {
    case EncoderHead::none: return {"encoder", {"embed"}};
    case EncoderHead::masked_lm: return {"masked language model", {"fill", "embed"}};
    case EncoderHead::sequence: return {"sequence classifier", {"classify", "evaluate --tsv", "embed"}};
    case EncoderHead::token: return {"token classifier", {"tag", "embed"}};
    case EncoderHead::span: return {"question answering model", {"answer", "embed"}};
  }
  HEED_ASSERT(false, "unknown head");
}

ModelKind kind(const Model& model) {
  ModelKind kind{"model", {}};
  if (dynamic_cast<const EncoderDecoderModel*>(&model) != nullptr)
    kind = takes_features(model)
               ? ModelKind{"encoder-decoder", {"translate --input"}}
               : ModelKind{"encoder-decoder", {"translate", "evaluate --source", "train --init", "embed"}};
  if (dynamic_cast<const DecoderModel*>(&model) != nullptr)
    kind = {"decoder", {"generate", "evaluate --text", "embed"}};
  if (const auto* encoder = dynamic_cast<const EncoderModel*>(&model)) kind = encoder_kind(encoder->head());
  const bool takes_text = model.vocab_size() > 0 && !takes_features(model);
  if (takes_text) {
    const std::vector<std::string> analyses = analyses_of(model);
    kind.commands.insert(kind.commands.end(), analyses.begin(), analyses.end());
  }
  kind.commands.insert(kind.commands.end(), {"forward", "doctor"});
  return kind;
}

}  // namespace

std::vector<std::string> commands_for(const Model& model) { return kind(model).commands; }

std::string command_for(const Config& config) {
  const std::vector<std::string> architectures = config.strings("architectures");
  const std::string name = architectures.empty() ? "" : architectures.front();
  constexpr std::pair<const char*, const char*> kCommands[] = {{"ForMaskedLM", "fill"},
                                                               {"ForSequenceClassification", "classify"},
                                                               {"ForTokenClassification", "tag"},
                                                               {"ForQuestionAnswering", "answer"},
                                                               {"ForImageClassification", "forward"}};
  for (const auto& [ending, command] : kCommands) {
    if (name.ends_with(ending)) return command;
  }
  if (config.boolean("is_encoder_decoder", false) || name.ends_with("ForConditionalGeneration") ||
      name.ends_with("MTModel"))
    return "translate";
  return name.ends_with("ForCausalLM") || name.ends_with("LMHeadModel") ? "generate" : "embed";
}

std::string kind_of(const Model& model) {
  const std::string family = model.family();
  const bool vowel = std::string("aeio").find(family.front()) != std::string::npos;
  return (vowel ? "an " : "a ") + family + " " + kind(model).name;
}

void refuse(const Model& model, const std::string& where, const std::string& task) {
  throw Error(where + ": " + kind_of(model) + " cannot " + task + " (use heed " +
              commands_for(model).front() + ")");
}

}  // namespace heed::cli
