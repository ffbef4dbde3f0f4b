/* model_builder.h under another path. */

#ifndef TENSORFLOW_LITE_CORE_MODEL_BUILDER_H_
#define TENSORFLOW_LITE_CORE_MODEL_BUILDER_H_

#include "tensorflow/lite/model_builder.h"

#endif
