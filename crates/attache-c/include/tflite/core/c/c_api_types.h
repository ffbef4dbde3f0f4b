/* c_api_types.h under another path. */

#ifndef TFLITE_CORE_C_C_API_TYPES_H_
#define TFLITE_CORE_C_C_API_TYPES_H_

#include "tensorflow/lite/core/c/c_api_types.h"

#endif
