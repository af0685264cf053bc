// heed's own route: what a text's tokens attend to, exactly as the model computes it.
#pragma once

#include "serve/services.h"

namespace heed::serve {

bool attends(const ServedModel& model);

/// The attention maps of a text: as JSON, or as the page of `heed attend` to who accepts text/html.
void attend(const Asked& asked);

}  // namespace heed::serve
