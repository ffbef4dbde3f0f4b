/* error_reporter.h under another path. */

#ifndef TFLITE_ERROR_REPORTER_H_
#define TFLITE_ERROR_REPORTER_H_

#include "tensorflow/lite/error_reporter.h"

#endif
