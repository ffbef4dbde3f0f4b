/* register.h under another path. */

#ifndef TFLITE_KERNELS_REGISTER_H_
#define TFLITE_KERNELS_REGISTER_H_

#include "tensorflow/lite/kernels/register.h"

#endif
