/* error_reporter.h under another path. */

#ifndef TFLITE_CORE_API_ERROR_REPORTER_H_
#define TFLITE_CORE_API_ERROR_REPORTER_H_

#include "tensorflow/lite/core/api/error_reporter.h"

#endif
