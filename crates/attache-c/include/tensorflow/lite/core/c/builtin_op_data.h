/* builtin_op_data.h under another path. */

#ifndef TENSORFLOW_LITE_CORE_C_BUILTIN_OP_DATA_H_
#define TENSORFLOW_LITE_CORE_C_BUILTIN_OP_DATA_H_

#include "tensorflow/lite/c/builtin_op_data.h"

#endif
