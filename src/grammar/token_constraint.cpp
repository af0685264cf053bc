// Constrained decoding: which tokens may follow a text, from a walk of the prefix tree of all tokens along
// the states of a grammar's automaton.
#include "heed/grammar/grammar.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <mutex>
#include <numeric>
#include <unordered_map>

#include "core/json.h"
#include "grammar/lazy_dfa.h"
#include "heed/error.h"
#include "heed/text/tokenizer.h"

namespace heed {

/// The bytes of all tokens as a tree, in the order in which a walk visits it.
struct TokenVocabulary::Tree {
  struct Node {
    std::uint32_t after;        ///< the first node that is not below this one
    std::uint32_t first_token;  ///< in `tokens`; they end where the next node's begin
    std::uint16_t depth;        ///< bytes before this one
    unsigned char byte;
  };

  explicit Tree(std::vector<std::string> bytes_of_ids);

  std::vector<Node> nodes;  ///< in preorder, and one for the end
  std::vector<std::uint32_t> tokens;
  std::vector<std::string> bytes;  ///< of each id
  std::size_t deepest = 0;
};

TokenVocabulary::Tree::Tree(std::vector<std::string> bytes_of_ids) : bytes(std::move(bytes_of_ids)) {
  for (std::string& token : bytes) {
    if (token.size() > UINT16_MAX) token.clear();
    deepest = std::max(deepest, token.size());
  }
  std::vector<std::uint32_t> order(bytes.size());
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return bytes[a] < bytes[b]; });
  std::vector<std::uint32_t> path;  // the nodes of the last token's bytes
  const auto close = [&](std::size_t depth) {
    for (; path.size() > depth; path.pop_back())
      nodes[path.back()].after = static_cast<std::uint32_t>(nodes.size());
  };
  const std::string* last = nullptr;
  for (const std::uint32_t id : order) {
    const std::string& token = bytes[id];
    if (token.empty()) continue;
    std::size_t shared = 0;
    while (last != nullptr && shared < std::min(last->size(), token.size()) &&
           (*last)[shared] == token[shared])
      ++shared;
    close(shared);
    for (std::size_t depth = shared; depth < token.size(); ++depth) {
      path.push_back(static_cast<std::uint32_t>(nodes.size()));
      nodes.push_back({0, static_cast<std::uint32_t>(tokens.size()), static_cast<std::uint16_t>(depth),
                       static_cast<unsigned char>(token[depth])});
    }
    tokens.push_back(id);
    last = &token;
  }
  close(0);
  nodes.push_back(
      {static_cast<std::uint32_t>(nodes.size()) + 1, static_cast<std::uint32_t>(tokens.size()), 0, 0});
}

TokenVocabulary::TokenVocabulary(const Tokenizer& tokenizer) : TokenVocabulary(token_bytes(tokenizer)) {}

TokenVocabulary::TokenVocabulary(const std::vector<std::string>& bytes)
    : tree_(std::make_shared<const Tree>(bytes)) {}

namespace {

using grammar::LazyDfa;
using DfaState = LazyDfa::DfaState;

constexpr std::size_t kMostCacheBytes = std::size_t{64} << 20;
constexpr std::size_t kShownBytes = 60;

/// The tokens that may follow, a bit each.
using TokenMask = std::vector<std::uint64_t>;

class TokenConstraint {
 public:
  TokenConstraint(const Grammar& grammar, const TokenVocabulary& vocabulary,
                  std::vector<std::size_t> prompt_lengths, std::vector<std::int64_t> end_ids)
      : network_(grammar.network()),
        where_(grammar.where()),
        tree_(vocabulary.tree()),
        prompt_lengths_(std::move(prompt_lengths)),
        end_ids_(std::move(end_ids)) {
    if (prompt_lengths_.empty()) throw Error(where_ + ": expected the length of a prompt, got none");
    clear();
  }

  void apply(std::size_t row, std::span<const std::int64_t> ids, std::span<float> scores) {
    const std::lock_guard lock(mutex_);
    const std::size_t prompt = prompt_lengths_[prompt_lengths_.size() == 1 ? 0 : row];
    if (prompt > ids.size()) throw Error(where_ + ": expected tokens that begin with the prompt, got fewer");
    if (dfa_->bytes() + bytes_ > kMostCacheBytes) clear();
    dfa_->begin_steps();
    try {
      mask(state_after(ids.subspan(prompt)), ids.subspan(prompt), scores);
    } catch (const grammar::GrammarError& error) {
      throw Error(where_ + ": " + error.what());
    }
  }

 private:
  /// A prefix: the number of a shorter one, and its last token.
  struct Step {
    std::uint32_t before;
    std::int64_t id;
    bool operator==(const Step&) const = default;
  };
  struct StepHash {
    std::size_t operator()(const Step& step) const {
      return (static_cast<std::size_t>(step.id) << 32 ^ step.before) * 0x9E3779B97F4A7C15u >> 5;
    }
  };

  void clear() {
    dfa_.emplace(network_);
    masks_.clear();
    prefixes_.clear();
    prefix_states_ = {dfa_->start()};
    states_.assign(tree_->deepest + 1, LazyDfa::kDead);
    bytes_ = 0;
  }

  const std::string& bytes_of(std::int64_t id) const {
    static const std::string kNone;
    return id >= 0 && static_cast<std::size_t>(id) < tree_->bytes.size()
               ? tree_->bytes[static_cast<std::size_t>(id)]
               : kNone;
  }

  DfaState state_after(std::span<const std::int64_t> ids) {
    std::uint32_t prefix = 0;
    for (const std::int64_t id : ids) {
      const auto [found, added] = prefixes_.try_emplace({prefix, id}, 0);
      if (added) {
        const std::string& token = bytes_of(id);
        const DfaState before = prefix_states_[prefix];
        DfaState state = dfa_->step_token(before, id);
        if (state == LazyDfa::kDead && !token.empty()) {
          state = before;
          for (const char byte : token) state = dfa_->step(state, static_cast<unsigned char>(byte));
        }
        found->second = static_cast<std::uint32_t>(prefix_states_.size());
        prefix_states_.push_back(state);
        bytes_ += 64;
      }
      prefix = found->second;
    }
    return prefix_states_[prefix];
  }

  const TokenMask& allowed_after(DfaState state) {
    if (const auto known = masks_.find(state); known != masks_.end()) return known->second;
    TokenMask mask((tree_->bytes.size() + 63) / 64);
    for (const std::uint32_t id : dfa_->tokens(state))
      if (id / 64 < mask.size()) mask[id / 64] |= std::uint64_t{1} << (id % 64);
    bytes_ += mask.size() * 8 + 64;
    states_[0] = state;
    const auto& nodes = tree_->nodes;
    for (std::uint32_t at = 0; at + 1 < nodes.size();) {
      const TokenVocabulary::Tree::Node& node = nodes[at];
      const DfaState next = dfa_->step(states_[node.depth], node.byte);
      if (next == LazyDfa::kDead) {
        at = node.after;
        continue;
      }
      states_[node.depth + 1u] = next;
      for (std::uint32_t i = node.first_token; i < nodes[at + 1].first_token; ++i) {
        const std::uint32_t id = tree_->tokens[i];
        mask[id / 64] |= std::uint64_t{1} << (id % 64);
      }
      ++at;
    }
    return masks_.emplace(state, std::move(mask)).first->second;
  }

  void mask(DfaState state, std::span<const std::int64_t> ids, std::span<float> scores) {
    constexpr float kExcluded = -std::numeric_limits<float>::infinity();
    const bool may_end = dfa_->may_end(state);
    const TokenMask& allowed = allowed_after(state);
    std::vector<std::pair<std::size_t, float>> ends;
    for (const std::int64_t id : end_ids_) {
      const auto at = static_cast<std::size_t>(id);
      if (id < 0 || at >= scores.size()) continue;
      ends.emplace_back(at, may_end ? scores[at] : kExcluded);
      scores[at] = kExcluded;
    }
    bool any = false;
    for (std::size_t id = 0; id < scores.size(); ++id) {
      const bool is_allowed = id / 64 < allowed.size() && (allowed[id / 64] >> (id % 64) & 1) != 0;
      if (!is_allowed) scores[id] = kExcluded;
      any = any || scores[id] > kExcluded;
    }
    for (const auto& [id, score] : ends) scores[id] = score;
    if (!any && !may_end) fail(ids);
  }

  [[noreturn]] void fail(std::span<const std::int64_t> ids) const {
    std::string text;
    for (const std::int64_t id : ids) text += bytes_of(id);
    if (text.size() > kShownBytes) text = "..." + text.substr(text.size() - kShownBytes);
    throw Error(where_ + ": expected a token that continues the text, got none with a score after " +
                json_quoted(text) + " (leave out options that exclude tokens)");
  }

  std::shared_ptr<const grammar::Network> network_;
  std::string where_;
  std::shared_ptr<const TokenVocabulary::Tree> tree_;
  std::vector<std::size_t> prompt_lengths_;
  std::vector<std::int64_t> end_ids_;

  std::mutex mutex_;
  std::optional<LazyDfa> dfa_;
  std::unordered_map<DfaState, TokenMask> masks_;
  std::unordered_map<Step, std::uint32_t, StepHash> prefixes_;
  std::vector<DfaState> prefix_states_;  // by the number of a prefix; 0 is the prompt
  std::vector<DfaState> states_;         // of a walk, by depth
  std::size_t bytes_ = 0;                // of all these
};

}  // namespace

std::function<void(std::size_t row, std::span<const std::int64_t> ids, std::span<float> scores)>
constrain_tokens(const Grammar& grammar, const TokenVocabulary& vocabulary,
                 std::vector<std::size_t> prompt_lengths, std::vector<std::int64_t> end_ids) {
  const auto constraint =
      std::make_shared<TokenConstraint>(grammar, vocabulary, std::move(prompt_lengths), std::move(end_ids));
  return [constraint](std::size_t row, std::span<const std::int64_t> ids, std::span<float> scores) {
    constraint->apply(row, ids, scores);
  };
}

}  // namespace heed
