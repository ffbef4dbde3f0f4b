/* schema_utils.h under another path. */

#ifndef TFLITE_SCHEMA_SCHEMA_UTILS_H_
#define TFLITE_SCHEMA_SCHEMA_UTILS_H_

#include "tensorflow/lite/schema/schema_utils.h"

#endif
