/* c_api.h under another path. */

#ifndef TFLITE_C_C_API_H_
#define TFLITE_C_C_API_H_

#include "tensorflow/lite/c/c_api.h"

#endif
