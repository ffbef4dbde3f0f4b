/* c_api.h under another path. */

#ifndef TENSORFLOW_LITE_CORE_C_C_API_H_
#define TENSORFLOW_LITE_CORE_C_C_API_H_

#include "tensorflow/lite/c/c_api.h"

#endif
