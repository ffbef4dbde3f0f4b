/* portable_type_to_tflitetype.h under another path. */

#ifndef TFLITE_PORTABLE_TYPE_TO_TFLITETYPE_H_
#define TFLITE_PORTABLE_TYPE_TO_TFLITETYPE_H_

#include "tensorflow/lite/portable_type_to_tflitetype.h"

#endif
