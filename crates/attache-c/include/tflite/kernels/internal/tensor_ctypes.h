/* tensor_ctypes.h under another path. */

#ifndef TFLITE_KERNELS_INTERNAL_TENSOR_CTYPES_H_
#define TFLITE_KERNELS_INTERNAL_TENSOR_CTYPES_H_

#include "tensorflow/lite/kernels/internal/tensor_ctypes.h"

#endif
