/* The version of TensorFlow Lite whose interface this is, and that of model files. */

#ifndef TENSORFLOW_LITE_VERSION_H_
#define TENSORFLOW_LITE_VERSION_H_

#define TFLITE_SCHEMA_VERSION (3)
#define TFLITE_VERSION_STRING "2.17.1"

#endif
