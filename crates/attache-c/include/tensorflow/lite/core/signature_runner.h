/* signature_runner.h under another path. */

#ifndef TENSORFLOW_LITE_CORE_SIGNATURE_RUNNER_H_
#define TENSORFLOW_LITE_CORE_SIGNATURE_RUNNER_H_

#include "tensorflow/lite/signature_runner.h"

#endif
