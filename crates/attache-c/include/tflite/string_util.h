/* string_util.h under another path. */

#ifndef TFLITE_STRING_UTIL_H_
#define TFLITE_STRING_UTIL_H_

#include "tensorflow/lite/string_util.h"

#endif
