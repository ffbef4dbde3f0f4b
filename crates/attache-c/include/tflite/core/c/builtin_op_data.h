/* builtin_op_data.h under another path. */

#ifndef TFLITE_CORE_C_BUILTIN_OP_DATA_H_
#define TFLITE_CORE_C_BUILTIN_OP_DATA_H_

#include "tensorflow/lite/core/c/builtin_op_data.h"

#endif
