/* builtin_op_data.h under another path. */

#ifndef TFLITE_C_BUILTIN_OP_DATA_H_
#define TFLITE_C_BUILTIN_OP_DATA_H_

#include "tensorflow/lite/c/builtin_op_data.h"

#endif
