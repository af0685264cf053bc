#include "text/family_tokens.h"

#include <algorithm>

namespace heed {
namespace {

struct RoleKey {
  SpecialRole role;
  const char* key;
};
/// In the order in which tokens missing from the vocabulary are added.
constexpr RoleKey kRoles[] = {{SpecialRole::bos, "bos_token"},  {SpecialRole::eos, "eos_token"},
                              {SpecialRole::unk, "unk_token"},  {SpecialRole::sep, "sep_token"},
                              {SpecialRole::pad, "pad_token"},  {SpecialRole::cls, "cls_token"},
                              {SpecialRole::mask, "mask_token"}};

/// Parses a token, given as a string or an object, that is special regardless of its own `special` entry.
AddedToken special_token(const JsonField& field) {
  if (!field.value().is_object()) return plain_token(field.string(), true);
  AddedToken token = parse_added_token(field, 0);
  token.special = true;
  token.normalized = field.boolean("normalized", false);
  return token;
}

}  // namespace

AddedToken plain_token(std::string_view content, bool special) {
  AddedToken token;
  token.content = content;
  token.special = special;
  token.normalized = !special;
  return token;
}

FamilyTokens::FamilyTokens(const DefaultTokens& usual, const JsonField& config, const JsonField& map,
                           const JsonField& added, const std::vector<AddedToken>& decoder) {
  const bool decoded = config.find("added_tokens_decoder").has_value();
  for (const RoleKey& entry : kRoles) {
    auto given = decoded ? std::nullopt : map.find(entry.key);
    if (!given) given = config.find(entry.key);
    read_role(static_cast<std::size_t>(entry.role), usual, given);
  }
  for (const char* key : {"extra_special_tokens", "additional_special_tokens"}) {
    if (!extra_) read_extra(config.find(key), false);
  }
  if (decoded) {
    added_ = decoder;
  } else {
    read_extra(map.find("extra_special_tokens"), true);
    read_added(added);
  }
}

void FamilyTokens::read_role(std::size_t index, const DefaultTokens& usual,
                             const std::optional<JsonField>& given) {
  if (!given && usual.roles[index] == nullptr) return;
  AddedToken token = given ? special_token(*given) : plain_token(usual.roles[index], true);
  if (given) named_.insert(token.content);
  const bool described = given && given->value().is_object();
  if (index == static_cast<std::size_t>(SpecialRole::mask) && !described) {
    token.lstrip = usual.mask_strips;
    token.normalized = usual.mask_normalized;
  }
  contents_[index] = token.content;
  roles_[index] = std::move(token);
}

void FamilyTokens::read_extra(const std::optional<JsonField>& list, bool of_map) {
  if (!list || list->value().is_object()) return;  // named tokens: special through their own keys
  if (!extra_) extra_.emplace();
  for (std::size_t i = 0; i < list->array_size(); ++i) {
    const JsonField field = list->at(i);
    const bool as_described = field.value().is_object() && !of_map;
    extra_->push_back(as_described ? parse_added_token(field, 0) : special_token(field));
    named_.insert(extra_->back().content);
  }
}

void FamilyTokens::read_added(const JsonField& document) {
  document.each_member([this](const std::string& content, const JsonField& id) {
    added_.push_back(plain_token(content, named_.count(content) > 0));
    added_.back().id = static_cast<std::int32_t>(id.integer(0, INT32_MAX));
  });
  std::stable_sort(added_.begin(), added_.end(),
                   [](const AddedToken& a, const AddedToken& b) { return a.id < b.id; });
}

std::vector<AddedToken> FamilyTokens::tokens(const std::vector<AddedToken>& own) const {
  std::vector<AddedToken> all = added_;
  std::set<std::string_view> known;
  for (const AddedToken& token : added_) known.insert(token.content);
  const auto append = [&](const AddedToken& token) {
    if (known.count(token.content) == 0) all.push_back(token);
  };
  for (const RoleKey& entry : kRoles) {
    const auto& token = roles_[static_cast<std::size_t>(entry.role)];
    if (token) append(*token);
  }
  for (const AddedToken& token : extra_ ? *extra_ : own) append(token);
  return all;
}

}  // namespace heed
