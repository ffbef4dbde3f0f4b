// The name of C++'s strings in programs for TensorFlow Lite.

#ifndef TENSORFLOW_LITE_STRING_TYPE_H_
#define TENSORFLOW_LITE_STRING_TYPE_H_

#include <string>

namespace tflite {

using std::string;

}  // namespace tflite

#endif
