/* c_api.h under another path. */

#ifndef TFLITE_CORE_C_C_API_H_
#define TFLITE_CORE_C_C_API_H_

#include "tensorflow/lite/core/c/c_api.h"

#endif
