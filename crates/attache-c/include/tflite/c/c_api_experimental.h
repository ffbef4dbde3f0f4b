/* c_api_experimental.h under another path. */

#ifndef TFLITE_C_C_API_EXPERIMENTAL_H_
#define TFLITE_C_C_API_EXPERIMENTAL_H_

#include "tensorflow/lite/c/c_api_experimental.h"

#endif
