// OpenAI's routes of speech: a recording in a form becomes text.
#pragma once

#include "serve/services.h"

namespace heed::serve::openai {

bool transcribes(const ServedModel& model);

/// Text in the language that is spoken.
void transcriptions(const Asked& asked);
/// English text.
void translations(const Asked& asked);

}  // namespace heed::serve::openai
