/* mutable_op_resolver.h under another path. */

#ifndef TFLITE_MUTABLE_OP_RESOLVER_H_
#define TFLITE_MUTABLE_OP_RESOLVER_H_

#include "tensorflow/lite/mutable_op_resolver.h"

#endif
