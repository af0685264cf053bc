// The tokenizer of a model as metadata of a GGUF file: the reverse of gguf_tokenizer.cpp.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "core/json.h"
#include "files/input_file.h"
#include "heed/error.h"
#include "heed/text/tokenizer.h"
#include "text/loading/gguf_tokenizer.h"
#include "text/loading/loaders.h"
#include "text/loading/sentencepiece_file.h"
#include "text/loading/tokenizer_config.h"

namespace heed {
namespace {

namespace fs = std::filesystem;

// Tokens by id, with [PADi] where there is none.
struct TokenList {
  explicit TokenList(std::int64_t rows) : types(static_cast<std::size_t>(rows), 0) {
    for (std::int64_t i = 0; i < rows; ++i) texts.push_back(fmt::format("[PAD{}]", i));
    std::fill(types.begin(), types.end(), static_cast<std::int32_t>(GgufToken::unused));
  }
  void set(std::int64_t id, std::string_view text, GgufToken type) {
    texts[static_cast<std::size_t>(id)] = text;
    types[static_cast<std::size_t>(id)] = static_cast<std::int32_t>(type);
  }
  std::vector<std::string> texts;
  std::vector<std::int32_t> types;
};

// Where a tokenizer.json asks for something that llama.cpp does not have.
[[noreturn]] void refuse_for_gguf(const fs::path& file, const char* section, const char* expected) {
  throw Error(fmt::format("{}: {}: expected {}, got others (a GGUF file has no place for them)",
                          file.string(), section, expected));
}

// The steps of a section, which may be a sequence of them.
std::vector<Json> steps_of(const Json& document, const char* section, const char* list) {
  const auto found = document.find(section);
  if (found == document.end() || found->is_null()) return {};
  if (found->value("type", "") != "Sequence") return {*found};
  return found->at(list).get<std::vector<Json>>();
}

// By which patterns a byte-level tokenizer splits texts.
std::vector<std::string> patterns_of(const Json& document, const fs::path& file) {
  std::vector<std::string> patterns;
  int byte_levels = 0;
  const char* expected = "Split, Digits and ByteLevel without a prefix space";
  for (const Json& step : steps_of(document, "pre_tokenizer", "pretokenizers")) {
    const std::string type = step.value("type", "");
    if (type == "Split" && step.at("pattern").contains("Regex") &&
        (step.value("behavior", "") == "Isolated" || step.value("invert", false))) {
      patterns.push_back(step.at("pattern").at("Regex").get<std::string>());
    } else if (type == "Digits") {
      patterns.emplace_back(step.value("individual_digits", false) ? R"(\p{N})" : R"(\p{N}+)");
    } else if (type == "ByteLevel" && !step.value("add_prefix_space", true)) {
      ++byte_levels;
      const GgufPreTokenizer& gpt2 = *gguf_pre_tokenizer("gpt-2");
      if (step.value("use_regex", true)) patterns.emplace_back(gpt2.patterns.front());
    } else {
      refuse_for_gguf(file, "pre_tokenizer", expected);
    }
  }
  if (byte_levels != 1) refuse_for_gguf(file, "pre_tokenizer", "ByteLevel once");
  return patterns;
}

std::string merge_text(const Json& merge) {
  if (merge.is_string()) return merge.get<std::string>();
  return merge.at(0).get<std::string>() + " " + merge.at(1).get<std::string>();
}

void set_added_tokens(const Json& document, const Tokenizer& tokenizer, TokenList& tokens) {
  for (const Json& added : document.value("added_tokens", Json::array())) {
    const auto text = added.at("content").get<std::string>();
    const auto id = tokenizer.token_to_id(text);
    if (id)
      tokens.set(*id, text, added.value("special", false) ? GgufToken::control : GgufToken::user_defined);
  }
}

void put_byte_level(const fs::path& file, const Json& document, const Tokenizer& tokenizer, std::int64_t rows,
                    GgufValues& to) {
  const Json& bpe = document.at("model");
  const std::vector<Json> normalizers = steps_of(document, "normalizer", "normalizers");
  const bool composes = normalizers.size() == 1 && normalizers[0].value("type", "") == "NFC";
  if (!normalizers.empty() && !composes) refuse_for_gguf(file, "normalizer", "none or NFC");
  const std::string_view pre =
      gguf_pre_tokenizer_name(patterns_of(document, file), composes, bpe.value("ignore_merges", false));
  if (pre.empty()) refuse_for_gguf(file, "pre_tokenizer", "patterns for which llama.cpp has a name");
  TokenList tokens(rows);
  for (const auto& [text, id] : bpe.at("vocab").items())
    tokens.set(id.get<std::int64_t>(), text, GgufToken::normal);
  set_added_tokens(document, tokenizer, tokens);
  std::vector<std::string> merges;
  for (const Json& merge : bpe.at("merges")) merges.push_back(merge_text(merge));
  to.text("tokenizer.ggml.model", "gpt2");
  to.text("tokenizer.ggml.pre", pre);
  to.texts(gguf_keys::kTokens, tokens.texts);
  to.integers(gguf_keys::kTypes, tokens.types);
  to.texts("tokenizer.ggml.merges", merges);
}

// User-defined pieces have spaces where SentencePiece has U+2581.
std::string with_spaces(std::string_view text) {
  std::string result;
  for (std::size_t at = 0; at < text.size();) {
    const bool blank = text.substr(at).starts_with(gguf_keys::kBlank);
    result += blank ? ' ' : text[at];
    at += blank ? gguf_keys::kBlank.size() : 1;
  }
  return result;
}

void put_pieces(const TokenList& tokens, const std::vector<float>& scores, bool adds_space,
                bool removes_spaces, GgufValues& to) {
  to.text("tokenizer.ggml.model", "llama");
  to.text("tokenizer.ggml.pre", "default");
  to.texts(gguf_keys::kTokens, tokens.texts);
  to.numbers(gguf_keys::kScores, scores);
  to.integers(gguf_keys::kTypes, tokens.types);
  to.boolean("tokenizer.ggml.add_space_prefix", adds_space);
  to.boolean("tokenizer.ggml.remove_extra_whitespaces", removes_spaces);
}

// Whether a tokenizer.json with bytes for what has no token puts a space before a text. Like SentencePiece,
// it must have U+2581 for spaces, and split texts nowhere.
bool adds_space(const Json& document, const fs::path& file) {
  const auto is = [](const Json& step, const char* type) { return step.value("type", "") == type; };
  std::vector<Json> normalizers = steps_of(document, "normalizer", "normalizers");
  const std::vector<Json> splits = steps_of(document, "pre_tokenizer", "pretokenizers");
  if (normalizers.empty() && splits.size() == 1 && is(splits[0], "Metaspace")) {
    const bool blank = splits[0].value("replacement", "") == gguf_keys::kBlank;
    if (!blank || splits[0].value("split", true))
      refuse_for_gguf(file, "pre_tokenizer", "Metaspace that does not split");
    const bool prefix = splits[0].value("add_prefix_space", true);
    return splits[0].value("prepend_scheme", prefix ? "always" : "never") != "never";
  }
  const bool prepends = !normalizers.empty() && is(normalizers[0], "Prepend") &&
                        normalizers[0].value("prepend", "") == gguf_keys::kBlank;
  if (prepends) normalizers.erase(normalizers.begin());
  const Json space = {{"String", " "}};
  const bool replaces = normalizers.size() == 1 && is(normalizers[0], "Replace") &&
                        normalizers[0].at("pattern") == space &&
                        normalizers[0].value("content", "") == gguf_keys::kBlank;
  if (!replaces) refuse_for_gguf(file, "normalizer", "U+2581 for spaces");
  for (const Json& step : splits) {  // at spaces, of which none are left
    if (!is(step, "Split") || step.at("pattern") != space)
      refuse_for_gguf(file, "pre_tokenizer", "none that splits");
  }
  return prepends;
}

// How early byte pairs are merged, as scores of the tokens that they make, by which SentencePiece merges.
// Throws Error for merges that scores cannot say: SentencePiece makes a token of any two that it consists of.
class MergeScores {
 public:
  MergeScores(const Json& bpe, const fs::path& file) : vocabulary_(bpe.at("vocab")) {
    const auto refuse = [&] { refuse_for_gguf(file, "merges", "all pairs that make a token, side by side"); };
    std::string last;
    for (const Json& merge : bpe.at("merges")) {
      std::string made = merge_text(merge);
      made.erase(made.find(' '), 1);
      const auto [place, is_new] = made_.try_emplace(made, Made{-static_cast<float>(made_.size()), 0});
      if (!is_new && made != last) refuse();
      ++place->second.pairs;
      last = std::move(made);
    }
    for (const auto& [token, made] : made_)
      if (pairs_of(token) != made.pairs) refuse();
  }
  /// Of a token that no pair makes: below all others.
  float of(const std::string& token) const {
    const auto found = made_.find(token);
    return found == made_.end() ? -static_cast<float>(made_.size()) : found->second.score;
  }

 private:
  struct Made {
    float score;
    int pairs;
  };
  int pairs_of(const std::string& token) const {
    int pairs = 0;
    for (std::size_t cut = 1; cut < token.size(); ++cut)
      pairs += vocabulary_.contains(token.substr(0, cut)) && vocabulary_.contains(token.substr(cut));
    return pairs;
  }
  const Json& vocabulary_;
  std::map<std::string, Made, std::less<>> made_;
};

void put_byte_fallback(const fs::path& file, const Json& document, const Tokenizer& tokenizer,
                       std::int64_t rows, GgufValues& to) {
  const Json& bpe = document.at("model");
  const MergeScores merges(bpe, file);
  TokenList tokens(rows);
  std::vector<float> scores(tokens.texts.size(), -10000);
  const Json unk_token = bpe.value("unk_token", Json());
  const std::string unknown = unk_token.is_string() ? unk_token.get<std::string>() : "";
  for (const auto& [text, id] : bpe.at("vocab").items()) {
    tokens.set(id.get<std::int64_t>(), text, GgufToken::normal);
    scores[id.get<std::size_t>()] = merges.of(text);
  }
  set_added_tokens(document, tokenizer, tokens);
  for (int byte = 0; byte < 256; ++byte) {
    const auto id = tokenizer.token_to_id(fmt::format("<0x{:02X}>", byte));
    if (!id) refuse_for_gguf(file, "vocab", "a token for every byte");
    tokens.types[static_cast<std::size_t>(*id)] = static_cast<std::int32_t>(GgufToken::byte);
  }
  for (std::size_t i = 0; i < tokens.texts.size(); ++i) {
    if (tokens.types[i] == static_cast<std::int32_t>(GgufToken::user_defined))
      tokens.texts[i] = with_spaces(tokens.texts[i]);
    if (tokens.texts[i] == unknown) tokens.types[i] = static_cast<std::int32_t>(GgufToken::unknown);
  }
  put_pieces(tokens, scores, adds_space(document, file), false, to);
}

void put_tokenizer_json(const ModelFiles& model, const Tokenizer& tokenizer, std::int64_t rows,
                        GgufValues& to) {
  const fs::path file = model.where("tokenizer.json");
  const Json document =
      parse_json(model.text("tokenizer.json", file_limits::kTokenizer), file.string(), kTokenizerJson);
  const Json& bpe = document.at("model");
  if (bpe.value("type", "BPE") != "BPE" || !bpe.contains("merges"))
    refuse_for_gguf(file, "model", "byte pair encoding, or a tokenizer.model beside it");
  // Where texts become bytes first, nothing falls back to them, whatever byte_fallback says.
  const std::vector<Json> steps = steps_of(document, "pre_tokenizer", "pretokenizers");
  const bool byte_level = std::any_of(steps.begin(), steps.end(),
                                      [](const Json& step) { return step.value("type", "") == "ByteLevel"; });
  const auto put = !byte_level && bpe.value("byte_fallback", false) ? put_byte_fallback : put_byte_level;
  put(file, document, tokenizer, rows, to);
}

void put_sentencepiece(const ModelFiles& model, const Tokenizer& tokenizer, std::int64_t rows,
                       GgufValues& to) {
  const fs::path file = model.where("tokenizer.model");
  const std::string serialized = model.text("tokenizer.model", file_limits::kTokenizer);
  const SentencePieceFile pieces = read_sentencepiece_file(serialized, file.string());
  if (pieces.unigram || !pieces.escape_whitespaces || pieces.whitespace_as_suffix)
    refuse_for_gguf(file, "trainer_spec", "a model of byte pairs with spaces before words");
  TokenList tokens(rows);
  std::vector<float> scores(tokens.texts.size(), -10000);
  const auto set = [&](std::int64_t id, std::string_view text, GgufToken type, float score) {
    const bool own = type == GgufToken::user_defined;
    tokens.set(id, own ? with_spaces(text) : std::string(text), type);
    scores[static_cast<std::size_t>(id)] = score;
  };
  for (std::size_t i = 0; i < pieces.pieces.size(); ++i) {
    const SentencePieceFile::Piece& piece = pieces.pieces[i];
    set(static_cast<std::int64_t>(i), piece.text, static_cast<GgufToken>(piece.kind), piece.score);
  }
  constexpr float kAddedScore = -1000;
  const auto added_kind = [](bool special) { return special ? GgufToken::control : GgufToken::user_defined; };
  for (std::int64_t id = std::ssize(pieces.pieces); id < tokenizer.vocab_size(); ++id)
    set(id, tokenizer.token(id), added_kind(tokenizer.is_special(id)), kAddedScore);
  for (const AddedToken& added : TokenizerConfig::load(model).added_tokens) {
    const auto id = tokenizer.token_to_id(added.content);
    if (id && tokens.types[static_cast<std::size_t>(*id)] != static_cast<std::int32_t>(GgufToken::unknown))
      set(*id, added.content, added_kind(added.special), kAddedScore);
  }
  put_pieces(tokens, scores, pieces.add_dummy_prefix, pieces.remove_extra_whitespaces, to);
  if (!pieces.charsmap.empty()) to.bytes("tokenizer.ggml.precompiled_charsmap", pieces.charsmap);
}

std::optional<std::int64_t> role_id(const Tokenizer& tokenizer, SpecialRole role) {
  switch (role) {
    case SpecialRole::bos: return tokenizer.bos_id();
    case SpecialRole::eos: return tokenizer.eos_id();
    case SpecialRole::unk: return tokenizer.unk_id();
    case SpecialRole::pad: return tokenizer.pad_id();
    case SpecialRole::mask: return tokenizer.mask_id();
    case SpecialRole::cls: return tokenizer.cls_id();
    default: return tokenizer.sep_id();
  }
}

// The roles of tokens, and which are added around a text.
void put_roles(const ModelFiles& model, const Tokenizer& tokenizer, std::vector<std::int64_t> ends,
               GgufValues& to) {
  const auto key = [](const char* role) { return fmt::format("tokenizer.ggml.{}_token_id", role); };
  for (const GgufRole& role : kGgufRoles) {
    if (const auto id = role_id(tokenizer, role.role)) to.integer(key(role.gguf), *id);
  }
  const auto own = tokenizer.eos_id();
  std::erase_if(ends, [&](std::int64_t id) { return id < 0 || id >= tokenizer.vocab_size() || id == own; });
  std::size_t next = 0;
  for (const char* role : {"eos", "eot", "eom"}) {
    if (next < ends.size() && !to.has(key(role))) to.integer(key(role), ends[next++]);
  }
  const std::vector<std::int64_t> plain = tokenizer.encode("a", false).ids;
  std::vector<std::int64_t> framed = tokenizer.encode("a").ids;
  const auto bos = tokenizer.bos_id();
  const bool first = bos && framed.size() > plain.size() && framed.front() == *bos;
  if (first) framed.erase(framed.begin());
  const bool last = own && framed.size() > plain.size() && framed.back() == *own;
  if (last) framed.pop_back();
  if (framed != plain)
    refuse_for_gguf(model.where(), "tokens around a text", "bos before it and eos after it, or none");
  to.boolean("tokenizer.ggml.add_bos_token", first);
  to.boolean("tokenizer.ggml.add_eos_token", last);
}

void put_chat_templates(const ModelFiles& model, GgufValues& to) {
  const std::vector<NamedTemplate> templates = read_chat_templates(model);
  std::vector<std::string> names;
  for (const NamedTemplate& one : templates) {
    const bool is_default = one.name == kDefaultTemplate;
    to.text(is_default ? gguf_keys::kChat : gguf_keys::chat(one.name), one.text);
    if (!is_default) names.push_back(one.name);
  }
  if (!names.empty()) to.texts(gguf_keys::kChats, names);
}

}  // namespace

void put_gguf_tokenizer(const ModelFiles& model, std::int64_t rows, const std::vector<std::int64_t>& ends,
                        GgufValues& to) {
  const auto tokenizer = load_tokenizer(model);  // which checks the files
  if (tokenizer->vocab_size() > rows)
    throw Error(fmt::format("{}: tokenizer: expected at most {} tokens, as the model's table has, got {}",
                            model.where(), rows, tokenizer->vocab_size()));
  if (model.has("tokenizer.model")) {
    put_sentencepiece(model, *tokenizer, rows, to);
  } else if (model.has("tokenizer.json")) {
    put_tokenizer_json(model, *tokenizer, rows, to);
  } else {
    throw Error(model.where() + ": tokenizer: expected a tokenizer.json or a tokenizer.model, got another");
  }
  put_roles(model, *tokenizer, ends, to);
  put_chat_templates(model, to);
}

}  // namespace heed
