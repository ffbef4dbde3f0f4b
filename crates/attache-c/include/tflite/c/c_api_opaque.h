/* c_api_opaque.h under another path. */

#ifndef TFLITE_C_C_API_OPAQUE_H_
#define TFLITE_C_C_API_OPAQUE_H_

#include "tensorflow/lite/c/c_api_opaque.h"

#endif
