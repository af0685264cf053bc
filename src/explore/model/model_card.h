// Texts to try, as a model's card names them: the list `widget` in the front matter of its README.md, as
// model cards on the Hugging Face Hub have it.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace heed::explore {

/// The texts of the entries `- text: …` below `widget:`; others are passed over. At most 8, of at most 500
/// bytes; a text may be plain, or in single or double quotes.
std::vector<std::string> examples_in_card(std::string_view card);

/// Those of the card in a model's directory; none without one, or where it cannot be read.
std::vector<std::string> examples_of(const std::filesystem::path& directory);

}  // namespace heed::explore
