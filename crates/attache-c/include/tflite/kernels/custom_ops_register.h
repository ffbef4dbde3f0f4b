/* custom_ops_register.h under another path. */

#ifndef TFLITE_KERNELS_CUSTOM_OPS_REGISTER_H_
#define TFLITE_KERNELS_CUSTOM_OPS_REGISTER_H_

#include "tensorflow/lite/kernels/custom_ops_register.h"

#endif
