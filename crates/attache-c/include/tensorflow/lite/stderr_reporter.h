/* error_reporter.h under another path. */

#ifndef TENSORFLOW_LITE_STDERR_REPORTER_H_
#define TENSORFLOW_LITE_STDERR_REPORTER_H_

#include "tensorflow/lite/error_reporter.h"

#endif
