// Checks of the tokenizer against the model: sizes, and the ids of special tokens.
#include <fmt/format.h>

#include <map>
#include <set>

#include "doctor/examination.h"
#include "heed/error.h"
#include "heed/generate/options.h"

namespace heed::doctor {
namespace {

// An id of config.json beside that of the tokenizer.
struct Role {
  const char* key;
  std::optional<std::int64_t> (Tokenizer::*own)() const;
};
constexpr Role kRoles[] = {{"bos_token_id", &Tokenizer::bos_id}, {"eos_token_id", &Tokenizer::eos_id},
                           {"pad_token_id", &Tokenizer::pad_id}, {"mask_token_id", &Tokenizer::mask_id},
                           {"cls_token_id", &Tokenizer::cls_id}, {"sep_token_id", &Tokenizer::sep_id}};

// How the special ids of config.json and tokenizer compare.
struct Comparison {
  std::int64_t equal = 0;
  std::vector<std::string> outside, ordinary, other;
  std::set<std::int64_t> offsets;  // of the tokenizer's ids from the config's
  std::set<std::int64_t> shifted;  // the config's ids that differ
};

std::string listed(const std::vector<std::string>& lines) {
  std::string all;
  for (const std::string& line : lines) all += (all.empty() ? "" : ", ") + line;
  return all;
}

// The end tokens of generation; none where its settings are wrong, which another check reports.
std::vector<std::int64_t> generation_ends(Examination& e) {
  try {
    return load_generation_options(e.checked.directory).eos_token_id;
  } catch (const Error&) {
    return {};
  }
}

void compare(const Role& role, const std::vector<std::int64_t>& ids, Examination& e, Comparison& c) {
  const std::int64_t vocabulary = e.model().vocab_size();
  for (const std::int64_t id : ids) {
    if (id >= vocabulary) c.outside.push_back(fmt::format("{} {}", role.key, id));
  }
  const Tokenizer* tokenizer = e.tokenizer();
  const std::optional<std::int64_t> own = tokenizer == nullptr ? std::nullopt : (tokenizer->*role.own)();
  if (!own || ids.empty() || ids.front() < 0) return;
  for (const std::int64_t id : ids) {
    if (id == *own) {
      ++c.equal;
      return;
    }
  }
  const std::int64_t id = ids.front();
  c.offsets.insert(*own - id);
  c.shifted.insert(id);
  if (id >= tokenizer->vocab_size()) return;
  const std::string line = fmt::format("{} {} is {} for the tokenizer, whose own is {} ({})", role.key, id,
                                       tokenizer->token(id), *own, tokenizer->token(*own));
  (tokenizer->is_special(id) ? c.other : c.ordinary).push_back(line);
}

}  // namespace

Finding check_tokenizer_size(Examination& e) {
  const std::int64_t vocabulary = e.model().vocab_size();
  if (vocabulary == 0) return skip("the model has no tokens");
  if (!e.checked.tokenizer_error.empty())
    return {CheckStatus::failed, e.checked.tokenizer_error,
            "correct the tokenizer's file that the message names"};
  if (e.tokenizer() == nullptr) return skip("there is no tokenizer");
  const std::int64_t tokens = e.tokenizer()->vocab_size();
  Finding found{
      .figure = fmt::format("{} tokens, {} rows of the embedding", tokens, vocabulary),
      .values = {{"tokens", static_cast<double>(tokens)}, {"rows", static_cast<double>(vocabulary)}}};
  if (tokens <= vocabulary) return found;
  bool all_special = true;
  for (std::int64_t id = vocabulary; id < tokens && all_special; ++id)
    all_special = e.tokenizer()->is_special(id);
  // Text alone never becomes a special token, so the model works until somebody adds one.
  found.status = all_special ? CheckStatus::warning : CheckStatus::failed;
  found.figure += all_special ? "; those beyond are special tokens" : "; texts get ids that the model lacks";
  found.advice = "take the tokenizer that the model was trained with, or add rows to the embedding";
  return found;
}

Finding check_special_ids(Examination& e) {
  if (e.model().vocab_size() == 0) return skip("the model has no tokens");
  if (!e.config()) return skip("there is no config.json");
  Comparison c;
  for (const Role& role : kRoles) {
    std::vector<std::int64_t> ids = e.config()->integers(role.key);
    if (std::string_view(role.key) == "eos_token_id") {
      const std::vector<std::int64_t> ends = generation_ends(e);
      ids.insert(ids.end(), ends.begin(), ends.end());
    }
    compare(role, ids, e, c);
  }
  const std::string tokenizer =
      "take the tokenizer that the model was trained with, or correct the ids in config.json";
  if (!c.outside.empty())
    return {CheckStatus::warning, "outside the vocabulary: " + listed(c.outside),
            "correct the ids in config.json"};
  // A shift by one number moves every special id by as much.
  if (c.equal == 0 && c.shifted.size() > 1 && c.offsets.size() == 1)
    return {CheckStatus::failed,
            fmt::format("all {} special ids differ from the tokenizer's by {:+}", c.shifted.size(),
                        *c.offsets.begin()),
            tokenizer,
            {{"offset", static_cast<double>(*c.offsets.begin())}}};
  if (!c.ordinary.empty()) return {CheckStatus::failed, listed(c.ordinary), tokenizer};
  if (!c.other.empty()) return {CheckStatus::warning, listed(c.other), tokenizer};
  if (e.tokenizer() == nullptr) return {.figure = "all in the vocabulary (no tokenizer to compare with)"};
  return {.figure = fmt::format("{} of config.json agree with the tokenizer", c.equal),
          .values = {{"equal", static_cast<double>(c.equal)}}};
}

}  // namespace heed::doctor
