/* allocation.h under another path. */

#ifndef TFLITE_ALLOCATION_H_
#define TFLITE_ALLOCATION_H_

#include "tensorflow/lite/allocation.h"

#endif
