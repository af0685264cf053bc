// Cutting vectors.
#include "serve/vector_answer.h"

#include <cmath>

namespace heed::serve {

void answer_vectors(Call& call, std::vector<EncoderResult> vectors, std::optional<std::int64_t> dimensions,
                    bool normalize, const Inspection* inspection,
                    const std::function<std::string(const std::vector<EncoderResult>&)>& text) {
  for (EncoderResult& vector : vectors) {
    if (!dimensions) break;
    if (*dimensions > vector.width)
      return call.fail(ApiError(Problem::invalid,
                                "request: dimensions: expected at most " + std::to_string(vector.width) +
                                    ", got " + std::to_string(*dimensions),
                                "dimensions"));
    vector.numbers.resize(static_cast<std::size_t>(*dimensions));
    double squares = 0;
    for (const float x : vector.numbers) squares += static_cast<double>(x) * static_cast<double>(x);
    if (!normalize || squares == 0) continue;
    for (float& x : vector.numbers) x = static_cast<float>(static_cast<double>(x) / std::sqrt(squares));
  }
  if (inspection != nullptr) return inspection->answer(call, text(vectors));
  call.answer(server::HttpResponse{200, text(vectors)});
}

}  // namespace heed::serve
