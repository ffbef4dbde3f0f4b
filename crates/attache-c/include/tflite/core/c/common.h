/* common.h under another path. */

#ifndef TFLITE_CORE_C_COMMON_H_
#define TFLITE_CORE_C_COMMON_H_

#include "tensorflow/lite/core/c/common.h"

#endif
