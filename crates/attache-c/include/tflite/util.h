/* util.h under another path. */

#ifndef TFLITE_UTIL_H_
#define TFLITE_UTIL_H_

#include "tensorflow/lite/util.h"

#endif
