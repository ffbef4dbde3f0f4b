/* xnnpack_delegate.h under another path. */

#ifndef TFLITE_DELEGATES_XNNPACK_XNNPACK_DELEGATE_H_
#define TFLITE_DELEGATES_XNNPACK_XNNPACK_DELEGATE_H_

#include "tensorflow/lite/delegates/xnnpack/xnnpack_delegate.h"

#endif
