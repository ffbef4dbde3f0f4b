/* builtin_op_kernels.h under another path. */

#ifndef TFLITE_KERNELS_BUILTIN_OP_KERNELS_H_
#define TFLITE_KERNELS_BUILTIN_OP_KERNELS_H_

#include "tensorflow/lite/kernels/builtin_op_kernels.h"

#endif
