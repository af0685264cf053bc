// Models, texts and tables of the analyses.
#include "cli/analysis_input.h"

#include <fmt/core.h>

#include <algorithm>

#include "cli/terminal.h"
#include "cli/text_tensors.h"
#include "heed/files/file.h"
#include "heed/models/registry.h"

namespace heed::cli {

TextModel<Model> load_analyzed(const ModelChoice& choice, const Globals& globals) {
  const LocatedModel located = locate_model(choice);
  TextModel<Model> loaded{load_model(located.directory, DType::f32, located.adapters), nullptr};
  warn_of_unknown_settings(*loaded.model, located.directory, globals);
  if (loaded.model->input().is_image())
    throw Error(located.directory.string() + ": expected a model that reads text, got " +
                loaded.model->family());
  loaded.tokenizer = load_tokenizer(located.directory);
  return loaded;
}

std::string subtitle_of(const ModelChoice& choice, const std::string& text) {
  return title_of(choice) + ": " + text;
}

std::vector<std::string> tokens_of(const std::vector<std::int64_t>& ids, const Tokenizer& tokenizer) {
  std::vector<std::string> names;
  for (const std::int64_t id : ids) names.push_back(tokenizer.token(id));
  return names;
}

AnalyzedText analyzed_text(const TextModel<Model>& loaded, const std::string& text,
                           const std::optional<std::string>& target) {
  const auto* both = dynamic_cast<const EncoderDecoderModel*>(loaded.model.get());
  if (both == nullptr && target)
    throw UsageError("--target: expected an encoder-decoder, got " + loaded.model->family());
  if (both != nullptr && !target)
    throw UsageError("--target: missing (the decoder of " + loaded.model->family() + " reads a target text)");
  const Encoding encoding = loaded.tokenizer->encode(text);
  if (encoding.ids.empty()) throw Error("missing text (give one with at least one token)");
  AnalyzedText result = analyzed_ids(encoding.ids);
  if (both == nullptr) return result;
  TextTensors tensors = side_by_side(std::vector<Encoding>{encoding}, both->pad_id(), false);
  add_targets(tensors, std::vector<Encoding>{loaded.tokenizer->encode_target(*target)}, *both);
  result.inputs = tensors.tensors;
  result.ids = result.inputs.at("decoder_input_ids").to_vector<std::int64_t>();
  return result;
}

AnalyzedText analyzed_ids(const std::vector<std::int64_t>& ids) {
  AnalyzedText result;
  result.ids = result.source_ids = ids;
  result.inputs["input_ids"] = Tensor::from(ids, {1, static_cast<std::int64_t>(ids.size())});
  return result;
}

std::int64_t single_token(const Tokenizer& tokenizer, const std::string& text, const char* option) {
  const std::vector<std::int64_t> ids = tokenizer.encode(text, false).ids;
  if (ids.size() == 1) return ids.front();
  if (const auto id = tokenizer.token_to_id(text)) return *id;
  if (text.starts_with(" ") && text.size() > 1) {  // of tokenizers that put a space before every text
    const std::vector<std::int64_t> bare = tokenizer.encode(std::string_view(text).substr(1), false).ids;
    if (bare.size() == 1) return bare.front();
  }
  std::string tokens;
  for (const std::int64_t id : ids) tokens += (tokens.empty() ? "" : " ") + tokenizer.token(id);
  throw UsageError(fmt::format("{}: expected one token, got {} ({})", option, ids.size(), tokens));
}

std::size_t index_of_kind(const std::string& kind, const std::vector<std::string>& kinds) {
  const auto found = std::find(kinds.begin(), kinds.end(), kind);
  if (found != kinds.end()) return static_cast<std::size_t>(found - kinds.begin());
  if (kinds.size() == 1)
    throw UsageError("--kind: expected " + kinds.front() + ", the only kind of this model, got " + kind);
  std::string names;
  for (std::size_t i = 0; i < kinds.size(); ++i)
    names += (i == 0 ? "" : i + 1 < kinds.size() ? ", " : " or ") + kinds[i];
  throw UsageError("--kind: expected " + names + ", got " + kind);
}

void check_svg_file(const std::filesystem::path& file) {
  if (!file.empty() && file.extension() != ".svg")
    throw UsageError("--output: expected a file ending in .svg, got " + file.string());
}

void show_table(const HeatTable& table, const std::string& json, const std::filesystem::path& file,
                const Globals& globals) {
  if (!file.empty()) {
    write_file(file, heat_table_svg(table));
    if (!globals.quiet) print_stderr("wrote " + file.string());
  }
  if (globals.json) {
    fmt::print("{}\n", json);
  } else if (file.empty()) {
    fmt::print("{}", heat_table_text(table, color_stdout()));
  }
  flush_results();
}

}  // namespace heed::cli
