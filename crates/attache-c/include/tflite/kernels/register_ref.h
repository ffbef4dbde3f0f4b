/* register_ref.h under another path. */

#ifndef TFLITE_KERNELS_REGISTER_REF_H_
#define TFLITE_KERNELS_REGISTER_REF_H_

#include "tensorflow/lite/kernels/register_ref.h"

#endif
