/* operator.h under another path. */

#ifndef TENSORFLOW_LITE_CORE_C_OPERATOR_H_
#define TENSORFLOW_LITE_CORE_C_OPERATOR_H_

#include "tensorflow/lite/c/operator.h"

#endif
