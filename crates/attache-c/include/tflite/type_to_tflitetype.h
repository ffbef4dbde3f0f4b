/* type_to_tflitetype.h under another path. */

#ifndef TFLITE_TYPE_TO_TFLITETYPE_H_
#define TFLITE_TYPE_TO_TFLITETYPE_H_

#include "tensorflow/lite/type_to_tflitetype.h"

#endif
