// The routes of OpenAI: models, embeddings, completions and chats.
#pragma once

#include "serve/services.h"

namespace heed::serve::openai {

/// What there is on this server, for who opens its address.
void overview(const Asked& asked);
void models(const Asked& asked);
/// Of a path `/v1/models/ID`.
void model(const Asked& asked);
void embeddings(const Asked& asked);
void completions(const Asked& asked);
void chat_completions(const Asked& asked);

}  // namespace heed::serve::openai
