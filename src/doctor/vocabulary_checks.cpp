// Checks of the tokenizer against the model: sizes, and the ids of special tokens.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "core/strings.h"
#include "doctor/examination.h"
#include "heed/error.h"

namespace heed::doctor {
namespace {

// What the ids of a key are for, and the tokenizer's own id of this role, if it has one.
struct Role {
  const char* key;
  std::optional<std::int64_t> (Tokenizer::*own)() const = nullptr;
};
constexpr Role kRoles[] = {{"bos_token_id", &Tokenizer::bos_id},
                           {"eos_token_id", &Tokenizer::eos_id},
                           {"pad_token_id", &Tokenizer::pad_id},
                           {"mask_token_id", &Tokenizer::mask_id},
                           {"cls_token_id", &Tokenizer::cls_id},
                           {"sep_token_id", &Tokenizer::sep_id},
                           {"decoder_start_token_id"},
                           {"forced_bos_token_id"},
                           {"forced_eos_token_id"}};

// How the special ids of the files and of the tokenizer compare.
struct Comparison {
  std::vector<std::string> equal;  // "2 of config.json", of each file
  std::int64_t equal_ids = 0;
  std::vector<std::string> outside, ordinary, other;
  std::set<std::int64_t> offsets;  // of the tokenizer's ids from those of the files
  std::set<std::int64_t> shifted;  // the ids that differ
};

// Looks at each id of a role in a file (config.json, say); returns whether one is the tokenizer's own.
bool compare_role(const Role& role, const std::string& file, const std::vector<std::int64_t>& ids,
                  Examination& e, Comparison& c) {
  const Tokenizer* tokenizer = e.tokenizer();
  std::int64_t own = -1;
  if (tokenizer != nullptr && role.own != nullptr) own = (tokenizer->*role.own)().value_or(-1);
  if (tokenizer != nullptr && role.key == std::string_view("decoder_start_token_id"))
    own = tokenizer->token_to_id("<|startoftranscript|>").value_or(-1);  // of Whisper
  const bool has_own = own >= 0 && std::find(ids.begin(), ids.end(), own) != ids.end();
  for (const std::int64_t id : ids) {
    const std::string where = fmt::format("{}: {} {}", file, role.key, id);
    if (e.vocab_size() > 0 && id >= e.vocab_size()) c.outside.push_back(where);
    if (tokenizer == nullptr || id < 0 || id == own) continue;
    if (own >= 0 && !has_own) {
      c.offsets.insert(own - id);
      c.shifted.insert(id);
    }
    if (id >= tokenizer->vocab_size()) continue;
    const bool special = tokenizer->is_special(id);
    if (special && (own < 0 || has_own)) continue;  // one of several end tokens, or a role of the model alone
    std::string line = fmt::format("{} is {} for the tokenizer", where, tokenizer->token(id));
    if (own >= 0) line += fmt::format(", whose own is {} ({})", own, tokenizer->token(own));
    // Padding is masked, so any id can pad where the tokenizer has none for it.
    const bool harmless = special || (own < 0 && std::string_view(role.key) == "pad_token_id");
    (harmless ? c.other : c.ordinary).push_back(line);
  }
  return has_own;
}

void compare_file(const Config& config, Examination& e, Comparison& c) {
  const std::string file = std::filesystem::path(config.where()).filename().string();
  std::int64_t equal = 0;
  for (const Role& role : kRoles) equal += compare_role(role, file, config.integers(role.key), e, c);
  c.equal_ids += equal;
  c.equal.push_back(fmt::format("{} of {}", equal, file));
}

// What the decoder begins with and is made to write, where the two files disagree on it.
void compare_files(const Config& model, const Config& generation, Comparison& c) {
  for (const char* key : {"decoder_start_token_id", "forced_bos_token_id", "forced_eos_token_id"}) {
    const std::vector<std::int64_t> one = model.integers(key), other = generation.integers(key);
    if (!one.empty() && !other.empty() && one != other)
      c.other.push_back(fmt::format("{} is {} in config.json and {} in generation_config.json", key,
                                    fmt::join(one, ", "), fmt::join(other, ", ")));
  }
}

// A token of a role that is a mere word, or the unknown token, in the tokenizer's own files.
void look_at_own(const Tokenizer& tokenizer, Comparison& c) {
  if (tokenizer.mask_id() && tokenizer.mask_id() == tokenizer.unk_id())
    c.other.push_back("the tokenizer's mask token is its unknown token, " +
                      tokenizer.token(*tokenizer.mask_id()));
  for (const Role& role : kRoles) {
    const auto own = role.own == nullptr ? std::nullopt : (tokenizer.*role.own)();
    if (!own || tokenizer.is_special(*own)) continue;
    c.other.push_back(
        fmt::format("the tokenizer's {} {} ({}) is no special token", role.key, *own, tokenizer.token(*own)));
  }
}

// Tokens of two or more letters, and those with a capital among them; without special ones and bytes.
struct Letters {
  std::int64_t tokens = 0, capital = 0;
};
Letters letters_of(const Tokenizer& tokenizer) {
  Letters letters;
  const auto between = [](char c, char first, char last) { return c >= first && c <= last; };
  for (std::int64_t id = 0; id < tokenizer.vocab_size(); ++id) {
    const std::string token = tokenizer.token(id);
    if (token.starts_with('<') || token.starts_with('[') || tokenizer.is_special(id)) continue;
    const auto capital =
        std::count_if(token.begin(), token.end(), [&](char c) { return between(c, 'A', 'Z'); });
    const auto small =
        std::count_if(token.begin(), token.end(), [&](char c) { return between(c, 'a', 'z'); });
    letters.tokens += capital + small >= 2;
    letters.capital += capital > 0 && capital + small >= 2;
  }
  return letters;
}

constexpr std::int64_t kFewestLetters = 500;  // tokens that tell whether the text of training had capitals
constexpr double kCased = 0.05, kUncased = 0.001;  // shares with a capital: those of published vocabularies
                                                   // are 0.2 to 0.4, and 0

// Whether another language's tokenizer reads English in fewer tokens than the one for English: a fifth.
std::string exchanged_languages(const Tokenizer& tokenizer, const Config& config) {
  const auto english = [&](const char* key) {
    return config.is_string(key) && config.required_string(key).starts_with("en");
  };
  const auto source = std::ssize(tokenizer.encode(kProse, false).ids),
             target = std::ssize(tokenizer.encode_target(kProse, false).ids);
  const bool from = english("source_lang"), to = english("target_lang");
  const auto own = from ? source : target, other = from ? target : source;
  if (from == to || other * 5 > own * 4) return {};
  return fmt::format("{} is English, but the tokenizer of the {} reads English in {} tokens, its own in {}",
                     from ? "source_lang" : "target_lang", from ? "target" : "source", other, own);
}

}  // namespace

Finding check_case(Examination& e) {
  if (e.tokenizer() == nullptr) return skip("there is no tokenizer");
  const Tokenizer& tokenizer = *e.tokenizer();
  const bool lowers = tokenizer.encode("THE RIVER", false).ids == tokenizer.encode("the river", false).ids;
  constexpr const char* kFile = "tokenizer_config.json";
  const std::string does = lowers ? "lower-cases texts" : "keeps capital letters";
  if (e.checked.files->has(kFile)) {
    const Config config = Config::load(*e.checked.files, kFile);
    const std::optional<bool> stated = config.optional_boolean("do_lower_case");
    if (stated && *stated != lowers)
      return {CheckStatus::warning,
              fmt::format("{}: do_lower_case is {}, but the tokenizer {}", kFile, *stated, does),
              "programs disagree on which of the two they follow: correct the wrong one"};
    if (const std::string wrong = exchanged_languages(tokenizer, config); !wrong.empty())
      return {CheckStatus::warning, wrong, "exchange source.spm and target.spm if they were exchanged"};
  }
  const Letters letters = letters_of(tokenizer);
  const double share =
      letters.tokens == 0 ? 0 : static_cast<double>(letters.capital) / static_cast<double>(letters.tokens);
  Finding found{.measurement = fmt::format("the tokenizer {}; {} of its tokens of letters have a capital",
                                           does, percent(share)),
                .values = {{"capital", share}}};
  if (letters.tokens < kFewestLetters || (lowers ? share < kCased : share > kUncased)) return found;
  found.status = CheckStatus::warning;
  found.advice = lowers
                     ? "those tokens never come: look at the normalizer, which a cased model lacks"
                     : "words with a capital are cut into pieces that training never saw, unless it left "
                       "capitals to the program: look for a normalizer that was lost, and at do_lower_case";
  return found;
}

Finding check_tokenizer_size(Examination& e) {
  const std::int64_t vocabulary = e.vocab_size();
  if (vocabulary == 0) return skip("the model has no tokens");
  if (!e.checked.tokenizer_error.empty())
    return {CheckStatus::failed, e.checked.tokenizer_error,
            "correct the tokenizer's file that the message names"};
  if (e.tokenizer() == nullptr) return skip("there is no tokenizer");
  const std::int64_t tokens = e.tokenizer()->vocab_size();
  Finding found{
      .measurement = fmt::format("{} tokens, {} rows of the embedding", tokens, vocabulary),
      .values = {{"tokens", static_cast<double>(tokens)}, {"rows", static_cast<double>(vocabulary)}}};
  if (tokens <= vocabulary) return found;
  bool all_special = true;
  for (std::int64_t id = vocabulary; id < tokens && all_special; ++id)
    all_special = e.tokenizer()->is_special(id);
  // Text alone never becomes a special token, so the model works until somebody adds one.
  found.status = all_special ? CheckStatus::warning : CheckStatus::failed;
  found.measurement +=
      all_special ? "; those beyond are special tokens" : "; texts get ids that the model lacks";
  found.advice = "take the tokenizer that the model was trained with, or add rows to the embedding";
  return found;
}

Finding check_special_ids(Examination& e) {
  if (e.checked.model != nullptr && e.vocab_size() == 0) return skip("the model has no tokens");
  if (!e.config()) return skip("there is no config.json");
  Comparison c;
  compare_file(*e.config(), e, c);
  constexpr const char* kOwn = "generation_config.json";
  if (e.checked.files && e.checked.files->has(kOwn)) {
    const Config own = Config::load(*e.checked.files, kOwn);
    compare_file(own, e, c);
    compare_files(*e.config(), own, c);
  }
  if (e.tokenizer() != nullptr) look_at_own(*e.tokenizer(), c);
  const std::string advice =
      "take the tokenizer that the model was trained with, or correct the ids in the file";
  // A shift by one number moves every special id by as much.
  if (c.equal_ids == 0 && c.shifted.size() > 1 && c.offsets.size() == 1)
    return {CheckStatus::failed,
            fmt::format("all {} special ids differ from the tokenizer's by {:+}", c.shifted.size(),
                        *c.offsets.begin()),
            advice,
            {{"offset", static_cast<double>(*c.offsets.begin())}}};
  if (!c.ordinary.empty()) return {CheckStatus::failed, joined(c.ordinary), advice};
  if (!c.outside.empty())
    return {CheckStatus::warning, "outside the vocabulary: " + joined(c.outside),
            "correct the ids in the file"};
  if (!c.other.empty()) return {CheckStatus::warning, joined(c.other), advice};
  if (e.tokenizer() == nullptr)
    return {.measurement = "all in the vocabulary (no tokenizer to compare with)"};
  return {.measurement = joined(c.equal, " and ") + " agree with the tokenizer",
          .values = {{"equal", static_cast<double>(c.equal_ids)}}};
}

}  // namespace heed::doctor
