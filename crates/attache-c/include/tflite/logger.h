/* logger.h under another path. */

#ifndef TFLITE_LOGGER_H_
#define TFLITE_LOGGER_H_

#include "tensorflow/lite/logger.h"

#endif
