// TokenVocabulary::Tree: the bytes of all tokens as a tree, in the order in which a walk visits it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "heed/grammar/grammar.h"

namespace heed {

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

}  // namespace heed
