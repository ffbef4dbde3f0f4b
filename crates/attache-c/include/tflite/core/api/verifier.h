/* verifier.h under another path. */

#ifndef TFLITE_CORE_API_VERIFIER_H_
#define TFLITE_CORE_API_VERIFIER_H_

#include "tensorflow/lite/core/api/verifier.h"

#endif
