/* stderr_reporter.h under another path. */

#ifndef TFLITE_STDERR_REPORTER_H_
#define TFLITE_STDERR_REPORTER_H_

#include "tensorflow/lite/stderr_reporter.h"

#endif
