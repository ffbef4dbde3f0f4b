/* profiler.h under another path. */

#ifndef TFLITE_CORE_API_PROFILER_H_
#define TFLITE_CORE_API_PROFILER_H_

#include "tensorflow/lite/core/api/profiler.h"

#endif
