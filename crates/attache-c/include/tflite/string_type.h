/* string_type.h under another path. */

#ifndef TFLITE_STRING_TYPE_H_
#define TFLITE_STRING_TYPE_H_

#include "tensorflow/lite/string_type.h"

#endif
