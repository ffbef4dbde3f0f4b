/* register.h under another path. */

#ifndef TFLITE_CORE_KERNELS_REGISTER_H_
#define TFLITE_CORE_KERNELS_REGISTER_H_

#include "tensorflow/lite/core/kernels/register.h"

#endif
