/* portable_type_to_tflitetype.h under another path. */

#ifndef TENSORFLOW_LITE_TYPE_TO_TFLITETYPE_H_
#define TENSORFLOW_LITE_TYPE_TO_TFLITETYPE_H_

#include "tensorflow/lite/portable_type_to_tflitetype.h"

#endif
