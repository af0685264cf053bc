#include "grammar/token_tree.h"

#include <algorithm>
#include <numeric>

#include "heed/text/tokenizer.h"

namespace heed {

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

}  // namespace heed
