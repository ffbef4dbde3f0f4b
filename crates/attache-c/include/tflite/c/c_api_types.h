/* c_api_types.h under another path. */

#ifndef TFLITE_C_C_API_TYPES_H_
#define TFLITE_C_C_API_TYPES_H_

#include "tensorflow/lite/c/c_api_types.h"

#endif
