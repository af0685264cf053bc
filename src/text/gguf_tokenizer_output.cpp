// The tokenizer of a model as metadata of a GGUF file: the reverse of gguf_tokenizer.cpp.
#include <fmt/format.h>

#include <algorithm>

#include "core/json.h"
#include "files/input_file.h"
#include "heed/error.h"
#include "heed/text/tokenizer.h"
#include "text/files.h"
#include "text/gguf_pre_tokenizers.h"
#include "text/gguf_tokenizer.h"
#include "text/sentencepiece_file.h"

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

void put_byte_level(const fs::path& model, const Tokenizer& tokenizer, std::int64_t rows, GgufValues& to) {
  const fs::path file = model / "tokenizer.json";
  const Json document =
      parse_json(read_regular_file(file, file_limits::kTokenizer), file.string(), kTokenizerJson);
  const Json& bpe = document.at("model");
  const std::vector<Json> normalizers = steps_of(document, "normalizer", "normalizers");
  const bool composes = normalizers.size() == 1 && normalizers[0].value("type", "") == "NFC";
  if (bpe.value("type", "BPE") != "BPE" || bpe.value("byte_fallback", false) || !bpe.contains("merges"))
    refuse_for_gguf(file, "model", "byte pair encoding of bytes, or a tokenizer.model beside it");
  if (!normalizers.empty() && !composes) refuse_for_gguf(file, "normalizer", "none or NFC");
  const std::string_view pre =
      gguf_pre_tokenizer_name(patterns_of(document, file), composes, bpe.value("ignore_merges", false));
  if (pre.empty()) refuse_for_gguf(file, "pre_tokenizer", "patterns for which llama.cpp has a name");
  TokenList tokens(rows);
  for (const auto& [text, id] : bpe.at("vocab").items())
    tokens.set(id.get<std::int64_t>(), text, GgufToken::normal);
  for (const Json& added : document.value("added_tokens", Json::array())) {
    const auto text = added.at("content").get<std::string>();
    const auto id = tokenizer.token_to_id(text);
    if (id)
      tokens.set(*id, text, added.value("special", false) ? GgufToken::control : GgufToken::user_defined);
  }
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

void put_sentencepiece(const fs::path& model, const Tokenizer& tokenizer, std::int64_t rows, GgufValues& to) {
  const fs::path file = model / "tokenizer.model";
  const std::string serialized = read_regular_file(file, file_limits::kTokenizer);
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
  to.text("tokenizer.ggml.model", "llama");
  to.text("tokenizer.ggml.pre", "default");
  to.texts(gguf_keys::kTokens, tokens.texts);
  to.numbers(gguf_keys::kScores, scores);
  to.integers(gguf_keys::kTypes, tokens.types);
  to.boolean("tokenizer.ggml.add_space_prefix", pieces.add_dummy_prefix);
  to.boolean("tokenizer.ggml.remove_extra_whitespaces", pieces.remove_extra_whitespaces);
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
void put_roles(const fs::path& model, const Tokenizer& tokenizer, std::vector<std::int64_t> ends,
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
    refuse_for_gguf(model, "tokens around a text", "bos before it and eos after it, or none");
  to.boolean("tokenizer.ggml.add_bos_token", first);
  to.boolean("tokenizer.ggml.add_eos_token", last);
}

void put_chat_template(const fs::path& model, GgufValues& to) {
  const fs::path config = model / "tokenizer_config.json", jinja = model / "chat_template.jinja";
  if (has_entry(jinja))
    return to.text("tokenizer.chat_template", read_regular_file(jinja, file_limits::kTokenizerConfig));
  if (!has_entry(config)) return;
  const Json document = parse_json(read_regular_file(config, file_limits::kTokenizerConfig), config.string());
  const auto found = document.find("chat_template");
  if (found == document.end()) return;
  if (found->is_string()) return to.text("tokenizer.chat_template", found->get<std::string>());
  if (!found->is_array()) return;
  for (const Json& named : *found) {
    const auto text = named.is_object() ? named.find("template") : named.end();
    if (text != named.end() && text->is_string() && named.value("name", Json()) == "default")
      return to.text("tokenizer.chat_template", text->get<std::string>());
  }
}

}  // namespace

void put_gguf_tokenizer(const fs::path& model, std::int64_t rows, const std::vector<std::int64_t>& ends,
                        GgufValues& to) {
  const auto tokenizer = load_tokenizer(model);  // which checks the files, and makes those of a GGUF file
  if (tokenizer->vocab_size() > rows)
    throw Error(fmt::format("{}: tokenizer: expected at most {} tokens, as the model's table has, got {}",
                            model.string(), rows, tokenizer->vocab_size()));
  if (has_entry(model / "tokenizer.model")) {
    put_sentencepiece(model, *tokenizer, rows, to);
  } else if (has_entry(model / "tokenizer.json")) {
    put_byte_level(model, *tokenizer, rows, to);
  } else {
    throw Error(model.string() + ": tokenizer: expected a tokenizer.json or a tokenizer.model, got another");
  }
  put_roles(model, *tokenizer, ends, to);
  put_chat_template(model, to);
}

}  // namespace heed
