/* operator.h under another path. */

#ifndef TFLITE_C_OPERATOR_H_
#define TFLITE_C_OPERATOR_H_

#include "tensorflow/lite/c/operator.h"

#endif
