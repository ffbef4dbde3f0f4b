/* common.h under another path. */

#ifndef TFLITE_C_COMMON_H_
#define TFLITE_C_COMMON_H_

#include "tensorflow/lite/c/common.h"

#endif
