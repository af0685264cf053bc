// What a tokenizer that could be loaded is put to.
#pragma once

#include "heed/text/tokenizer.h"

namespace heed::fuzz {

/// Encodes and decodes; all it may throw is Error.
inline void use(const Tokenizer& tokenizer) {
  try {
    std::vector<std::int64_t> ids;
    for (const char* text :
         {"", " Hello,  world!\n", "na\xc3\xafve \xe4\xbd\xa0\xe5\xa5\xbd 12345", "\xff\xfe a",
          "\xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x9a\x80 e\xcc\x81 <s></s>"}) {
      const std::vector<std::int64_t> more = tokenizer.encode(text).ids;
      ids.insert(ids.end(), more.begin(), more.end());
    }
    tokenizer.decode(ids);
    tokenizer.decode(std::vector<std::int64_t>{0, 1, 2, -1, 1 << 30});
  } catch (const Error&) {  // of the text or the ids, not of a file
  }
}

}  // namespace heed::fuzz
