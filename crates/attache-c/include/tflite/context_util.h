/* context_util.h under another path. */

#ifndef TFLITE_CONTEXT_UTIL_H_
#define TFLITE_CONTEXT_UTIL_H_

#include "tensorflow/lite/context_util.h"

#endif
