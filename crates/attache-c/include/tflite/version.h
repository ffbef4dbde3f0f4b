/* version.h under another path. */

#ifndef TFLITE_VERSION_H_
#define TFLITE_VERSION_H_

#include "tensorflow/lite/version.h"

#endif
