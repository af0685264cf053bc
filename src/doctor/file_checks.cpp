// Checks of what the files say: whether they make a model, keys that nothing follows, settings of generation,
// tied weights, and the chat template.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <iterator>
#include <set>

#include "core/strings.h"
#include "doctor/examination.h"
#include "heed/error.h"
#include "heed/generate/options.h"
#include "heed/io/safetensors.h"
#include "heed/tasks/transcribe.h"
#include "text/loading/loaders.h"

namespace heed::doctor {
namespace {

constexpr double kLargeEps = 1e-3;  // of norms; models have 1e-12 to 1e-5

// The first label that id2label and label2id number differently; empty if there is none.
std::string contradicting_label(const Config& config) {
  const auto names = config.optional_sub("id2label"), ids = config.optional_sub("label2id");
  if (!names || !ids) return {};
  for (const std::string& id : names->names()) {
    if (!names->is_string(id)) continue;
    const std::string name = names->required_string(id);
    if (!ids->has(name)) return fmt::format("label {} ({}) of id2label is not in label2id", id, name);
    if (ids->is_number(name) && fmt::format("{}", ids->required_number(name)) != id)
      return fmt::format("label {} is {} in id2label and {} in label2id", name, id,
                         ids->required_number(name));
  }
  return {};
}

std::optional<std::int64_t> positions_of(const Examination& e) {
  return e.checked.model == nullptr ? std::nullopt : e.model().max_positions();
}

// Why the settings cannot work together; empty if they can.
std::string contradiction(const GenerationOptions& o, const Examination& e) {
  std::set<std::int64_t> suppressed(o.suppress_tokens.begin(), o.suppress_tokens.end());
  for (const std::vector<std::int64_t>& words : o.bad_words_ids) {
    if (words.size() == 1) suppressed.insert(words.front());
  }
  const std::vector<std::int64_t>& ends = o.eos_token_id;
  const auto never = [&](std::int64_t id) { return suppressed.contains(id); };
  if (!ends.empty() && std::all_of(ends.begin(), ends.end(), never))
    return fmt::format("eos_token_id {} is among suppress_tokens or bad_words_ids, so no text ends",
                       ends.front());
  if (!o.max_new_tokens && o.max_length && *o.max_length <= 1)
    return fmt::format("max_length {} leaves no room for a new token", *o.max_length);
  if (const auto positions = positions_of(e); positions && o.min_length > *positions)
    return fmt::format("min_length {} is above the model's {} positions", o.min_length, *positions);
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
  for (const auto& [key, ids] : {std::pair{"suppress_tokens", &o.suppress_tokens},
                                 {"begin_suppress_tokens", &o.begin_suppress_tokens}}) {
    for (const std::int64_t id : *ids) {
      if (vocabulary > 0 && id >= vocabulary)
        idle.push_back(fmt::format("{} {} is outside the vocabulary", key, id));
    }
  }
  const auto positions = positions_of(e);
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

// Marks of turns that templates write in brackets. Some models read them as plain text (Llama 2), so that
// they need be tokens only where the tokenizer has other tokens for turns.
constexpr const char* kBracketMarks[] = {"[INST]", "[/INST]", "<<SYS>>", "<start_of_turn>", "<end_of_turn>"};
constexpr const char* kTurnTokens[] = {"<|im_start|>",
                                       "<|start_header_id|>",
                                       "<start_of_turn>",
                                       "[INST]",
                                       "<|start_of_role|>",
                                       "<|user|>",
                                       "<|User|>",
                                       "<|turn>",
                                       "<|START_OF_TURN_TOKEN|>"};

// A bracket mark that the template writes and the tokenizer splits, beside a token for turns that the
// template never writes: "[INST], though the tokenizer has <|im_start|>"; empty if there is none.
std::string foreign_mark(const std::string& text, const Tokenizer& tokenizer) {
  const auto writes = [&](const char* mark) { return text.find(mark) != std::string::npos; };
  for (const char* mark : kBracketMarks) {
    if (!writes(mark) || tokenizer.token_to_id(mark)) continue;
    for (const char* own : kTurnTokens) {
      if (tokenizer.token_to_id(own) && !writes(own))
        return fmt::format("{}, though the tokenizer has {}", mark, own);
    }
  }
  return {};
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

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// The words of a Jinja tag, without those in quotes; of a word, what comes before and behind it.
struct TagWord {
  std::string word, before;  // the word before it
  char last = ' ', next = ' ';
};
std::vector<TagWord> words_of(std::string_view tag) {
  std::vector<TagWord> words;
  char last = ' ', quote = 0;
  for (std::size_t i = 0; i < tag.size(); ++i) {
    if (quote != 0) {
      if (tag[i] == quote) quote = 0;
      if (tag[i] == '\\') ++i;
      continue;
    }
    if (tag[i] == '"' || tag[i] == '\'') quote = tag[i];
    const std::size_t begin = i;
    while (i < tag.size() && is_word(tag[i])) ++i;
    if (i > begin) {
      TagWord word{std::string(tag.substr(begin, i - begin)), words.empty() ? "" : words.back().word, last,
                   ' '};
      const std::size_t next = tag.find_first_not_of(" \n\t", i);
      if (next != std::string_view::npos) word.next = tag[next];
      words.push_back(std::move(word));
      last = 'a';
      --i;
    } else if (tag[i] != ' ' && tag[i] != '\n' && tag[i] != '\t') {
      last = tag[i];
    }
  }
  return words;
}

// What a template calls that programs do not give it: no function of Jinja or transformers, no macro of its
// own; and whether it reads what messages say.
struct TemplateWords {
  std::set<std::string> unknown;
  bool reads_content = false;
};
TemplateWords words_of_template(const std::string& text) {
  // Operators and tags may stand before a bracket as well.
  std::set<std::string> known{"range",        "dict",   "lipsum",
                              "cycler",       "joiner", "namespace",
                              "caller",       "super",  "raise_exception",
                              "strftime_now", "loop",   "if",
                              "elif",         "in",     "not",
                              "and",          "or",     "else",
                              "is",           "set",    "for",
                              "filter",       "call",   "generation",
                              "print",        "return", "do"};
  TemplateWords found;
  std::set<std::string> called;
  for (std::size_t at = text.find('{'); at != std::string::npos; at = text.find('{', at + 1)) {
    const std::string_view mark = std::string_view(text).substr(at, 2);
    const char* close = mark == "{%" ? "%}" : mark == "{{" ? "}}" : mark == "{#" ? "#}" : nullptr;
    if (close == nullptr) continue;
    const std::size_t end = text.find(close, at);
    if (end == std::string::npos) break;
    if (mark == "{#") {
      at = end;
      continue;
    }
    const std::string_view tag = std::string_view(text).substr(at + 2, end - at - 2);
    found.reads_content = found.reads_content || tag.find("content") != std::string_view::npos;
    for (const TagWord& word : words_of(tag)) {
      if (word.before == "macro") known.insert(word.word);
      if (word.next == '(' && word.last != '.' && word.last != '|' && word.before != "is")
        called.insert(word.word);
    }
    at = end;
  }
  std::set_difference(called.begin(), called.end(), known.begin(), known.end(),
                      std::inserter(found.unknown, found.unknown.end()));
  return found;
}

// The settings as the command that runs the model reads them: a Whisper's have tokens of languages and times.
GenerationOptions generation_of(Examination& e, std::vector<std::string>* unused) {
  constexpr const char* kFile = "generation_config.json";
  const ModelFiles& files = *e.checked.files;
  const auto* both = e.checked.model == nullptr ? nullptr : as<EncoderDecoderModel>(e.model());
  const bool transcribes = both != nullptr && both->input().kind == InputKind::spectrogram &&
                           files.has(kFile) && Config::load(files, kFile).has("no_timestamps_token_id");
  return transcribes ? load_speech_settings(files, *both, unused).generation
                     : load_generation_options(files, unused);
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

Finding check_config_values(Examination& e) {
  if (!e.config()) return skip("there is no config.json");
  const Config& config = *e.config();
  std::vector<std::string> odd;
  static const std::set<std::string> types{"float32", "float16", "bfloat16", "float64",       "float",
                                           "half",    "double",  "auto",     "float8_e4m3fn", "float8_e5m2"};
  for (const char* key : {"dtype", "torch_dtype"}) {
    if (!config.is_string(key)) continue;
    std::string type = config.required_string(key);
    if (type.starts_with("torch.")) type.erase(0, 6);
    if (!types.contains(type)) odd.push_back(fmt::format("{} {} is no type of numbers", key, type));
  }
  for (const char* key :
       {"rms_norm_eps", "layer_norm_eps", "layer_norm_epsilon", "layernorm_epsilon", "norm_eps"}) {
    if (config.is_number(key) && config.required_number(key) > kLargeEps)
      odd.push_back(
          fmt::format("{} {} is large beside the variance of a stream", key, config.required_number(key)));
  }
  if (const std::string labels = contradicting_label(config); !labels.empty()) odd.push_back(labels);
  if (odd.empty()) return {.measurement = "types, labels and eps are as in other models"};
  return {CheckStatus::warning, joined(odd, "; "), "correct config.json if this is not meant"};
}

Finding check_generation_settings(Examination& e) {
  const bool generates =
      e.checked.model == nullptr ? e.checked.files->has("generation_config.json") : e.decodes();
  if (!generates) return skip("the model does not generate");
  std::vector<std::string> unused;
  GenerationOptions options;
  try {
    options = generation_of(e, &unused);
    const std::int64_t vocabulary = e.vocab_size();
    check_generation_options(options, vocabulary > 0 ? std::optional(vocabulary) : std::nullopt);
  } catch (const Error& error) {
    return {CheckStatus::failed, error.what(), "correct generation_config.json"};
  }
  if (const std::string wrong = contradiction(options, e); !wrong.empty())
    return {CheckStatus::failed, wrong, "correct generation_config.json"};
  std::vector<std::string> odd = idle_settings(options, e);
  if (!unused.empty()) odd.push_back("not followed: " + joined(unused));
  if (odd.empty()) return {.measurement = "all settings can work"};
  return {CheckStatus::warning, joined(odd, "; "), "correct generation_config.json if this is not meant"};
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
  const TensorFiles files = TensorFiles::open(*e.checked.files);
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
  const std::vector<NamedTemplate> templates = read_chat_templates(*e.checked.files);
  if (templates.empty()) return skip("the model has no chat template");
  const NamedTemplate* usual = find_template(templates, kDefaultTemplate);
  const std::string& text = (usual != nullptr ? *usual : templates.front()).text;
  if (const std::string broken = broken_tags(text); !broken.empty())
    return {CheckStatus::failed, broken, "correct the template: no program can fill it in"};
  const TemplateWords words = words_of_template(text);
  if (!words.unknown.empty())
    return {CheckStatus::failed, "calls what no program gives it: " + joined(words.unknown),
            "correct the template: no program can fill it in"};
  if (!words.reads_content)
    return {CheckStatus::warning, "never reads the content of messages",
            "take the template of the model that this one was made from"};
  if (e.tokenizer() == nullptr)
    return {.measurement = fmt::format("{} characters, all tags closed", text.size())};
  std::vector<std::string> unknown = unknown_tokens(text, *e.tokenizer());
  if (std::string mark = foreign_mark(text, *e.tokenizer()); !mark.empty())
    unknown.push_back(std::move(mark));
  if (unknown.empty())
    return {.measurement = fmt::format("{} characters, all tags closed, all its tokens known", text.size())};
  return {CheckStatus::warning, "not tokens of the tokenizer: " + joined(unknown),
          "take the template or the tokenizer of the model that this one was made from"};
}

}  // namespace heed::doctor
