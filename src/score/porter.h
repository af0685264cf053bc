// The stems of English words.
#pragma once

#include <string>

namespace heed::score {

/// Porter, "An algorithm for suffix stripping", 1980, with the changes of NLTK's PorterStemmer, its default
/// (rules of four-letter words in -ies and -ied, of y after a vowel, of -alli, -bli, -fulli and -logi, and a
/// list of irregular words). `word` is of a-z and 0-9.
std::string porter_stem(std::string word);

}  // namespace heed::score
