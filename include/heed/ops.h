// All operations on tensors.
#pragma once

#include "heed/ops/activation.h"
#include "heed/ops/attention.h"
#include "heed/ops/attention_variants.h"
#include "heed/ops/elementwise.h"
#include "heed/ops/embedding.h"
#include "heed/ops/loss.h"
#include "heed/ops/matmul.h"
#include "heed/ops/norm.h"
#include "heed/ops/recurrent.h"
#include "heed/ops/reduce.h"
#include "heed/ops/rotary.h"
#include "heed/ops/shape.h"
#include "heed/ops/softmax.h"
