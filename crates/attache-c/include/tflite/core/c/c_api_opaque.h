/* c_api_opaque.h under another path. */

#ifndef TFLITE_CORE_C_C_API_OPAQUE_H_
#define TFLITE_CORE_C_C_API_OPAQUE_H_

#include "tensorflow/lite/core/c/c_api_opaque.h"

#endif
