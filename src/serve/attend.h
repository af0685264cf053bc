// heed's own route: what a text's tokens attend to, exactly as the model computes it.
#pragma once

#include "heed/inspect/record.h"
#include "serve/services.h"

namespace heed::serve {

bool attends(const ServedModel& model);

/// The field `layers`: of the stacks that these kinds of attention are in. Throws ApiError for others.
std::vector<std::int64_t> asked_layers(const ServedModel& model, const std::vector<AttentionKind>& kinds,
                                       const Fields& fields);

/// The attention maps of a text: as JSON, or as the page of `heed attend` to who accepts text/html.
void attend(const Asked& asked);

}  // namespace heed::serve
