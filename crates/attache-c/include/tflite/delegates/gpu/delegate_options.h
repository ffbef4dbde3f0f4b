/* delegate_options.h under another path. */

#ifndef TFLITE_DELEGATES_GPU_DELEGATE_OPTIONS_H_
#define TFLITE_DELEGATES_GPU_DELEGATE_OPTIONS_H_

#include "tensorflow/lite/delegates/gpu/delegate_options.h"

#endif
