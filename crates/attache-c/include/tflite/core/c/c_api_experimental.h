/* c_api_experimental.h under another path. */

#ifndef TFLITE_CORE_C_C_API_EXPERIMENTAL_H_
#define TFLITE_CORE_C_C_API_EXPERIMENTAL_H_

#include "tensorflow/lite/core/c/c_api_experimental.h"

#endif
