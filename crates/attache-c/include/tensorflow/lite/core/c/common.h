/* common.h under another path. */

#ifndef TENSORFLOW_LITE_CORE_C_COMMON_H_
#define TENSORFLOW_LITE_CORE_C_COMMON_H_

#include "tensorflow/lite/c/common.h"

#endif
