/* model.h under another path. */

#ifndef TENSORFLOW_LITE_CORE_MODEL_H_
#define TENSORFLOW_LITE_CORE_MODEL_H_

#include "tensorflow/lite/model.h"

#endif
