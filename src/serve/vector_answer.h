// The vectors of a request, cut to the size that it asks for.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "serve/call.h"
#include "serve/encoder_batch.h"
#include "serve/inspection.h"

namespace heed::serve {

/// Cuts the vectors to `dimensions` (Matryoshka embeddings), with length 1 again if `normalize`, and answers
/// with what `text` makes of them, and with the values of `inspection`, unless that is null; with 400 if
/// there are less dimensions.
void answer_vectors(Call& call, std::vector<EncoderResult> vectors, std::optional<std::int64_t> dimensions,
                    bool normalize, const Inspection* inspection,
                    const std::function<std::string(const std::vector<EncoderResult>&)>& text);

}  // namespace heed::serve
