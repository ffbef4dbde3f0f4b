/* error_reporter.h under another path. */

#ifndef TENSORFLOW_LITE_CORE_API_ERROR_REPORTER_H_
#define TENSORFLOW_LITE_CORE_API_ERROR_REPORTER_H_

#include "tensorflow/lite/error_reporter.h"

#endif
