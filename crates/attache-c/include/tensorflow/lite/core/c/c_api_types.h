/* c_api_types.h under another path. */

#ifndef TENSORFLOW_LITE_CORE_C_C_API_TYPES_H_
#define TENSORFLOW_LITE_CORE_C_C_API_TYPES_H_

#include "tensorflow/lite/c/c_api_types.h"

#endif
