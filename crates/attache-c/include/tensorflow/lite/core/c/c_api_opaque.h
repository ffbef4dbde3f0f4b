/* c_api_opaque.h under another path. */

#ifndef TENSORFLOW_LITE_CORE_C_C_API_OPAQUE_H_
#define TENSORFLOW_LITE_CORE_C_C_API_OPAQUE_H_

#include "tensorflow/lite/c/c_api_opaque.h"

#endif
