/* model.h under another path. */

#ifndef TFLITE_MODEL_H_
#define TFLITE_MODEL_H_

#include "tensorflow/lite/model.h"

#endif
