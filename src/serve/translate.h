// heed's own route: texts through an encoder-decoder, as `heed translate` does it.
#pragma once

#include "serve/services.h"

namespace heed::serve {

bool translates(const ServedModel& model);

/// Translations, summaries or what else the model makes of texts, one text in a turn.
void translate_texts(const Asked& asked);

}  // namespace heed::serve
