/* gl_delegate.h under another path. */

#ifndef TFLITE_DELEGATES_GPU_GL_DELEGATE_H_
#define TFLITE_DELEGATES_GPU_GL_DELEGATE_H_

#include "tensorflow/lite/delegates/gpu/gl_delegate.h"

#endif
