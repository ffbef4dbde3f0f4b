/* model_builder.h under another path. */

#ifndef TFLITE_MODEL_BUILDER_H_
#define TFLITE_MODEL_BUILDER_H_

#include "tensorflow/lite/model_builder.h"

#endif
