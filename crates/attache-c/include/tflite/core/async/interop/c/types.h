/* types.h under another path. */

#ifndef TFLITE_CORE_ASYNC_INTEROP_C_TYPES_H_
#define TFLITE_CORE_ASYNC_INTEROP_C_TYPES_H_

#include "tensorflow/lite/core/async/interop/c/types.h"

#endif
