// Checks of what the files say: whether they make a model, keys that nothing follows, settings of generation,
// tied weights, and the chat template.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "doctor/examination.h"
#include "files/input_file.h"
#include "heed/error.h"
#include "heed/generate/options.h"
#include "heed/io/safetensors.h"

namespace heed::doctor {
namespace {

std::string joined(const std::vector<std::string>& names) {
  std::string all;
  for (const std::string& name : names) all += (all.empty() ? "" : ", ") + name;
  return all;
}

// Why the settings cannot work together; empty if they can.
std::string contradiction(const GenerationOptions& o) {
  const std::set<std::int64_t> suppressed(o.suppress_tokens.begin(), o.suppress_tokens.end());
  const std::vector<std::int64_t>& ends = o.eos_token_id;
  const auto never = [&](std::int64_t id) { return suppressed.contains(id); };
  if (!ends.empty() && std::all_of(ends.begin(), ends.end(), never))
    return fmt::format("eos_token_id {} is among suppress_tokens, so no text ends", ends.front());
  if (!o.max_new_tokens && o.max_length && o.min_length > *o.max_length)
    return fmt::format("min_length {} is above max_length {}", o.min_length, *o.max_length);
  return {};
}

// What has no effect, or none that was meant.
std::vector<std::string> idle_settings(const GenerationOptions& o, const Examination& e) {
  std::vector<std::string> idle;
  const std::int64_t vocabulary = e.vocab_size();
  if (!o.do_sample && (o.temperature != 1.0 || o.top_p != 1.0))
    idle.emplace_back("temperature and top_p act with do_sample only, which is off");
  if (o.num_beams == 1 && (o.length_penalty != 1.0 || o.early_stopping != EarlyStopping::no))
    idle.emplace_back("length_penalty and early_stopping act with num_beams above 1 only");
  if (o.eos_token_id.empty()) idle.emplace_back("without eos_token_id every text has the maximum length");
  for (const std::int64_t id : o.eos_token_id) {
    if (vocabulary > 0 && id >= vocabulary)
      idle.push_back(fmt::format("eos_token_id {} is outside the vocabulary and ends no text", id));
  }
  const auto positions = e.checked.model == nullptr ? std::nullopt : e.model().max_positions();
  if (positions && !o.max_new_tokens && o.max_length && *o.max_length > *positions)
    idle.push_back(fmt::format("max_length {} is above the model's {} positions", *o.max_length, *positions));
  return idle;
}

// The mean cosine of the rows of two matrices, over at most 512 of them.
double mean_cosine(const Tensor& a, const Tensor& b) {
  const Tensor x = a.to(DType::f32).contiguous(), y = b.to(DType::f32).contiguous();
  const std::int64_t rows = x.size(0), columns = x.size(1), stride = std::max<std::int64_t>(1, rows / 512);
  double sum = 0;
  std::int64_t count = 0;
  for (std::int64_t r = 0; r < rows; r += stride, ++count) {
    const float* p = x.data<float>() + r * columns;
    const float* q = y.data<float>() + r * columns;
    double pq = 0, pp = 0, qq = 0;
    for (std::int64_t i = 0; i < columns; ++i) {
      pq += static_cast<double>(p[i]) * static_cast<double>(q[i]);
      pp += static_cast<double>(p[i]) * static_cast<double>(p[i]);
      qq += static_cast<double>(q[i]) * static_cast<double>(q[i]);
    }
    if (pp > 0 && qq > 0) sum += pq / std::sqrt(pp * qq);
  }
  return count == 0 ? 0 : sum / static_cast<double>(count);
}

std::string read_template(const std::filesystem::path& directory) {
  if (const auto own = directory / "chat_template.jinja"; has_entry(own))
    return read_regular_file(own, file_limits::kConfig);
  const auto settings = directory / "tokenizer_config.json";
  if (!has_entry(settings)) return {};
  const Config config = Config::load(settings);
  return config.is_string("chat_template") ? config.required_string("chat_template") : std::string();
}

// The first word of a Jinja tag: "{%- if x %}" gives "if".
std::string keyword(std::string_view tag) {
  const std::size_t begin = tag.find_first_not_of("-+ \n\t");
  if (begin == std::string_view::npos) return {};
  const std::size_t end = tag.find_first_of(" \n\t-(", begin);
  return std::string(tag.substr(begin, end == std::string_view::npos ? end : end - begin));
}

// What is wrong with the tags of a Jinja template; empty if all of them match.
std::string broken_tags(const std::string& text) {
  static const std::set<std::string> blocks = {"if", "for", "macro", "filter", "call", "generation"};
  std::vector<std::string> open;
  for (std::size_t at = text.find('{'); at != std::string::npos; at = text.find('{', at)) {
    const std::string_view mark = std::string_view(text).substr(at, 2);
    const char* close = mark == "{%" ? "%}" : mark == "{{" ? "}}" : mark == "{#" ? "#}" : nullptr;
    if (close == nullptr) {
      ++at;
      continue;
    }
    const std::size_t end = text.find(close, at + 2);
    if (end == std::string::npos)
      return fmt::format("{} at character {} is not closed by {}", mark, at, close);
    const std::string word = mark == "{%" ? keyword(std::string_view(text).substr(at + 2, end - at - 2)) : "";
    if (blocks.contains(word)) open.push_back(word);
    if (word.starts_with("end") && blocks.contains(word.substr(3))) {
      if (open.empty() || open.back() != word.substr(3)) return word + " without its beginning";
      open.pop_back();
    }
    at = end + 2;
  }
  return open.empty() ? "" : open.back() + " without end" + open.back();
}

// Tokens like <|im_start|> of a template that the tokenizer splits.
std::vector<std::string> unknown_tokens(const std::string& text, const Tokenizer& tokenizer) {
  std::set<std::string> unknown;
  for (std::size_t at = text.find("<|"); at != std::string::npos; at = text.find("<|", at + 2)) {
    const std::size_t end = text.find("|>", at);
    if (end == std::string::npos) break;
    const std::string token = text.substr(at, end + 2 - at);
    if (token.find_first_of(" \n'\"{+") == std::string::npos && !tokenizer.token_to_id(token))
      unknown.insert(token);
  }
  return {unknown.begin(), unknown.end()};
}

}  // namespace

Finding check_loading(Examination& e) {
  if (e.checked.model == nullptr)
    return {CheckStatus::failed, e.checked.model_error, "correct what the message names"};
  std::int64_t elements = 0;
  for (const Parameter& p : e.model().parameters()) elements += p.tensor.numel();
  return {.measurement = fmt::format("{}, {} parameters in {} tensors", e.model().family(), elements,
                                     e.model().parameters().size()),
          .values = {{"parameters", static_cast<double>(elements)}}};
}

Finding check_config_keys(Examination& e) {
  const std::vector<std::string> unknown = e.model().unknown_settings();
  if (unknown.empty())
    return {.measurement = "every key of config.json is followed or known to change nothing"};
  return {CheckStatus::warning,
          fmt::format("{} keys that nothing follows: {}", unknown.size(), joined(unknown)),
          "correct a misspelled key; a setting of newer versions may change what the model should compute"};
}

Finding check_generation_settings(Examination& e) {
  const Model* model = e.checked.model;
  const bool generates = model == nullptr ? has_entry(e.checked.directory / "generation_config.json")
                                          : dynamic_cast<const DecoderModel*>(model) != nullptr ||
                                                dynamic_cast<const EncoderDecoderModel*>(model) != nullptr;
  if (!generates) return skip("the model does not generate");
  std::vector<std::string> unused;
  GenerationOptions options;
  try {
    options = load_generation_options(e.checked.directory, &unused);
    const std::int64_t vocabulary = e.vocab_size();
    check_generation_options(options, vocabulary > 0 ? std::optional(vocabulary) : std::nullopt);
  } catch (const Error& error) {
    return {CheckStatus::failed, error.what(), "correct generation_config.json"};
  }
  if (const std::string wrong = contradiction(options); !wrong.empty())
    return {CheckStatus::failed, wrong, "correct generation_config.json"};
  std::vector<std::string> odd = idle_settings(options, e);
  if (!unused.empty()) odd.push_back("not followed: " + joined(unused));
  if (odd.empty()) return {.measurement = "all settings can work"};
  std::string measurement;
  for (const std::string& line : odd) measurement += (measurement.empty() ? "" : "; ") + line;
  return {CheckStatus::warning, measurement, "correct generation_config.json if this is not meant"};
}

Finding check_tied_weights(Examination& e) {
  const std::optional<bool> stated =
      e.config() ? e.config()->optional_boolean("tie_word_embeddings") : std::nullopt;
  const std::int64_t vocabulary = e.model().vocab_size();
  std::vector<const Parameter*> tables;
  for (const Parameter& p : e.model().parameters()) {
    if (vocabulary > 1 && p.tensor.rank() == 2 && p.tensor.size(0) == vocabulary) tables.push_back(&p);
  }
  if (tables.empty()) return skip("the model has no embedding of tokens");
  const auto is_output = [](const Parameter* p) {
    return p->name.find("lm_head") != std::string::npos ||
           p->name.find("decoder.weight") != std::string::npos ||
           p->name.find("embed_out") != std::string::npos || p->name.find("output") != std::string::npos;
  };
  const auto output = std::find_if(tables.begin(), tables.end(), is_output);
  if (output == tables.end() || tables.size() == 1)
    return {.measurement = tables.size() == 1
                               ? "one table of " + std::to_string(vocabulary) + " rows: " + tables[0]->name
                               : std::to_string(tables.size()) + " tables of inputs"};
  const auto input = std::find_if(tables.begin(), tables.end(), [&](const Parameter* p) {
    return p != *output && p->tensor.shape() == (*output)->tensor.shape();
  });
  if (input == tables.end()) return {.measurement = (*output)->name + " has its own shape"};
  const TensorFiles files = TensorFiles::open(e.checked.directory);
  const auto read = [&](const Parameter* p) {
    return files.contains(p->name) ? files.get(p->name) : p->tensor;
  };
  const double cosine = mean_cosine(read(*input), read(*output));
  Finding found{.measurement = fmt::format("{} and {} are two matrices, mean cosine {:.2f}", (*input)->name,
                                           (*output)->name, cosine),
                .values = {{"cosine", cosine}}};
  if (!stated.value_or(false)) return found;
  // transformers 5 writes tie_word_embeddings true with this key for models whose two matrices are meant.
  const bool meant =
      e.config()->has("scale_decoder_outputs") && !e.config()->boolean("scale_decoder_outputs", true);
  found.status = meant ? CheckStatus::warning : CheckStatus::failed;
  found.measurement += ", but tie_word_embeddings is true";
  found.advice = meant
                     ? "set tie_word_embeddings to false, as older versions of transformers tie them"
                     : "remove the wrong one from the file, or set tie_word_embeddings to false: versions of "
                       "transformers disagree on which they use";
  return found;
}

Finding check_chat_template(Examination& e) {
  const std::string text = read_template(e.checked.directory);
  if (text.empty()) return skip("the model has no chat template");
  if (const std::string broken = broken_tags(text); !broken.empty())
    return {CheckStatus::failed, broken, "correct the template: no program can fill it in"};
  if (e.tokenizer() == nullptr)
    return {.measurement = fmt::format("{} characters, all tags closed", text.size())};
  const std::vector<std::string> unknown = unknown_tokens(text, *e.tokenizer());
  if (unknown.empty())
    return {.measurement = fmt::format("{} characters, all tags closed, all its tokens known", text.size())};
  return {CheckStatus::warning, "not tokens of the tokenizer: " + joined(unknown),
          "take the template or the tokenizer of the model that this one was made from"};
}

}  // namespace heed::doctor
