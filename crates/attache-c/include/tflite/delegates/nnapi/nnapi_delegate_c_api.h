/* nnapi_delegate_c_api.h under another path. */

#ifndef TFLITE_DELEGATES_NNAPI_NNAPI_DELEGATE_C_API_H_
#define TFLITE_DELEGATES_NNAPI_NNAPI_DELEGATE_C_API_H_

#include "tensorflow/lite/delegates/nnapi/nnapi_delegate_c_api.h"

#endif
