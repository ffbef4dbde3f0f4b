/* model_builder.h under another path. */

#ifndef TFLITE_CORE_MODEL_BUILDER_H_
#define TFLITE_CORE_MODEL_BUILDER_H_

#include "tensorflow/lite/core/model_builder.h"

#endif
