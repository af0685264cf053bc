// Porter's stemmer: five steps, each a list of suffixes of which the first that fits is replaced.
#include "score/segment.h"

#include <algorithm>
#include <initializer_list>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace heed::score {
namespace {

// Of each letter whether it is a consonant: y is one at the beginning and after a vowel.
std::vector<bool> consonants(std::string_view word) {
  std::vector<bool> flags;
  for (const char c : word) {
    const bool vowel = std::string_view("aeiou").find(c) != std::string_view::npos;
    flags.push_back(c == 'y' ? flags.empty() || !flags.back() : !vowel);
  }
  return flags;
}

// How often a consonant follows a vowel: m in [C](VC){m}[V].
int measure(std::string_view stem) {
  const std::vector<bool> flags = consonants(stem);
  int count = 0;
  for (std::size_t i = 1; i < flags.size(); ++i) count += flags[i] && !flags[i - 1];
  return count;
}

bool has_vowel(std::string_view stem) {
  const std::vector<bool> flags = consonants(stem);
  return std::find(flags.begin(), flags.end(), false) != flags.end();
}

// Consonant, vowel, consonant other than w, x, y (*o in the paper); NLTK: also a vowel and a consonant alone.
bool ends_cvc(std::string_view stem) {
  const std::vector<bool> flags = consonants(stem);
  const std::size_t n = flags.size();
  if (n == 2) return !flags[0] && flags[1];
  return n > 2 && flags[n - 3] && !flags[n - 2] && flags[n - 1] &&
         std::string_view("wxy").find(stem.back()) == std::string_view::npos;
}

struct Rule {
  std::string_view suffix, replacement;
};

// Replaces the first suffix of the list that the word has, if more than `least` is measured in what is left.
void apply(std::string& word, std::initializer_list<Rule> rules, int least) {
  for (const Rule& rule : rules) {
    if (!word.ends_with(rule.suffix)) continue;
    const std::string_view stem = std::string_view(word).substr(0, word.size() - rule.suffix.size());
    const bool ion = least == 1 && rule.suffix == "ion";
    if (measure(stem) > least && (!ion || stem.ends_with('s') || stem.ends_with('t')))
      word.replace(stem.size(), rule.suffix.size(), rule.replacement);
    return;
  }
}

void plural(std::string& word) {
  if (word.ends_with("ies") && word.size() == 4) {
    word.pop_back();
  } else {
    apply(word, {{"sses", "ss"}, {"ies", "i"}, {"ss", "ss"}, {"s", ""}}, -1);
  }
}

// What is left of -ed or -ing gets an e, or loses one of two equal consonants.
void mend(std::string& word) {
  for (const char* ending : {"at", "bl", "iz"}) {
    if (!word.ends_with(ending)) continue;
    word += 'e';
    return;
  }
  const std::size_t n = word.size();
  if (n > 1 && word[n - 1] == word[n - 2] && consonants(word).back()) {
    if (std::string_view("lsz").find(word.back()) == std::string_view::npos) word.pop_back();
  } else if (measure(word) == 1 && ends_cvc(word)) {
    word += 'e';
  }
}

void past_and_participle(std::string& word) {
  if (word.ends_with("ied")) {
    word.resize(word.size() - (word.size() == 4 ? 1 : 2));
    return;
  }
  if (word.ends_with("eed")) {
    if (measure(std::string_view(word).substr(0, word.size() - 3)) > 0) word.pop_back();
    return;
  }
  for (const std::string_view suffix : {"ed", "ing"}) {
    if (!word.ends_with(suffix)) continue;
    const std::string stem = word.substr(0, word.size() - suffix.size());
    if (!has_vowel(stem)) continue;
    word = stem;
    return mend(word);
  }
}

void final_y(std::string& word) {
  if (word.size() > 2 && word.back() == 'y' && consonants(word)[word.size() - 2]) word.back() = 'i';
}

void double_suffixes(std::string& word) {
  while (word.ends_with("alli") && measure(std::string_view(word).substr(0, word.size() - 4)) > 0)
    word.resize(word.size() - 2);
  if (word.ends_with("logi")) {
    if (measure(std::string_view(word).substr(0, word.size() - 3)) > 0) word.pop_back();
    return;
  }
  apply(word, {{"ational", "ate"}, {"tional", "tion"}, {"enci", "ence"}, {"anci", "ance"}, {"izer", "ize"},
               {"bli", "ble"},     {"alli", "al"},     {"entli", "ent"}, {"eli", "e"},     {"ousli", "ous"},
               {"ization", "ize"}, {"ation", "ate"},   {"ator", "ate"},  {"alism", "al"},  {"iveness", "ive"},
               {"fulness", "ful"}, {"ousness", "ous"}, {"aliti", "al"},  {"iviti", "ive"}, {"biliti", "ble"},
               {"fulli", "ful"}},
        0);
}

void final_e(std::string& word) {
  if (!word.ends_with('e')) return;
  const std::string_view stem = std::string_view(word).substr(0, word.size() - 1);
  const int m = measure(stem);
  if (m > 1 || (m == 1 && !ends_cvc(stem))) word.pop_back();
}

}  // namespace

std::string porter_stem(std::string word) {
  static const std::unordered_map<std::string_view, std::string_view> irregular = {
      {"sky", "sky"},        {"skies", "sky"},       {"dying", "die"},        {"lying", "lie"},
      {"tying", "tie"},      {"news", "news"},       {"innings", "inning"},   {"inning", "inning"},
      {"outings", "outing"}, {"outing", "outing"},   {"cannings", "canning"}, {"canning", "canning"},
      {"howe", "howe"},      {"proceed", "proceed"}, {"exceed", "exceed"},    {"succeed", "succeed"}};
  if (const auto found = irregular.find(word); found != irregular.end()) return std::string(found->second);
  if (word.size() <= 2) return word;
  plural(word);
  past_and_participle(word);
  final_y(word);
  double_suffixes(word);
  apply(word,
        {{"icate", "ic"},
         {"ative", ""},
         {"alize", "al"},
         {"iciti", "ic"},
         {"ical", "ic"},
         {"ful", ""},
         {"ness", ""}},
        0);
  apply(word,
        {{"al", ""},
         {"ance", ""},
         {"ence", ""},
         {"er", ""},
         {"ic", ""},
         {"able", ""},
         {"ible", ""},
         {"ant", ""},
         {"ement", ""},
         {"ment", ""},
         {"ent", ""},
         {"ion", ""},
         {"ou", ""},
         {"ism", ""},
         {"ate", ""},
         {"iti", ""},
         {"ous", ""},
         {"ive", ""},
         {"ize", ""}},
        1);
  final_e(word);
  if (word.ends_with("ll") && measure(std::string_view(word).substr(0, word.size() - 1)) > 1) word.pop_back();
  return word;
}

}  // namespace heed::score
