// The routes of Text Embeddings Inference (Hugging Face), and reranking in the form of Jina and Cohere.
#pragma once

#include "serve/services.h"

namespace heed::serve::tei {

void embed(const Asked& asked);
void embed_all(const Asked& asked);
void embed_sparse(const Asked& asked);
void predict(const Asked& asked);
/// With `texts` TEI's form, with `documents` that of Jina and Cohere.
void rerank(const Asked& asked);
void similarity(const Asked& asked);
/// With `inputs` TEI's form, with `content` llama.cpp's, with `prompt` vLLM's.
void tokenize(const Asked& asked);
/// With `ids` TEI's form, with `tokens` llama.cpp's.
void decode(const Asked& asked);
void info(const Asked& asked);

}  // namespace heed::serve::tei
