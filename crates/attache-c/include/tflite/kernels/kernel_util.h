/* kernel_util.h under another path. */

#ifndef TFLITE_KERNELS_KERNEL_UTIL_H_
#define TFLITE_KERNELS_KERNEL_UTIL_H_

#include "tensorflow/lite/kernels/kernel_util.h"

#endif
