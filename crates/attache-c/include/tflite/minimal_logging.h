/* minimal_logging.h under another path. */

#ifndef TFLITE_MINIMAL_LOGGING_H_
#define TFLITE_MINIMAL_LOGGING_H_

#include "tensorflow/lite/minimal_logging.h"

#endif
