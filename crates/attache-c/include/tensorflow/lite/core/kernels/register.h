/* register.h under another path. */

#ifndef TENSORFLOW_LITE_CORE_KERNELS_REGISTER_H_
#define TENSORFLOW_LITE_CORE_KERNELS_REGISTER_H_

#include "tensorflow/lite/kernels/register.h"

#endif
