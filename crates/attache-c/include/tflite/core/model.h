/* model.h under another path. */

#ifndef TFLITE_CORE_MODEL_H_
#define TFLITE_CORE_MODEL_H_

#include "tensorflow/lite/core/model.h"

#endif
