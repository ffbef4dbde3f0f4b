/* operator.h under another path. */

#ifndef TFLITE_CORE_C_OPERATOR_H_
#define TFLITE_CORE_C_OPERATOR_H_

#include "tensorflow/lite/core/c/operator.h"

#endif
