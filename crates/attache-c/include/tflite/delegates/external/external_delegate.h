/* external_delegate.h under another path. */

#ifndef TFLITE_DELEGATES_EXTERNAL_EXTERNAL_DELEGATE_H_
#define TFLITE_DELEGATES_EXTERNAL_EXTERNAL_DELEGATE_H_

#include "tensorflow/lite/delegates/external/external_delegate.h"

#endif
