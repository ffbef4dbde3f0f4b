/* optional_debug_tools.h under another path. */

#ifndef TFLITE_OPTIONAL_DEBUG_TOOLS_H_
#define TFLITE_OPTIONAL_DEBUG_TOOLS_H_

#include "tensorflow/lite/optional_debug_tools.h"

#endif
