/* builtin_ops.h under another path. */

#ifndef TFLITE_BUILTIN_OPS_H_
#define TFLITE_BUILTIN_OPS_H_

#include "tensorflow/lite/builtin_ops.h"

#endif
