/* op_resolver.h under another path. */

#ifndef TFLITE_OP_RESOLVER_H_
#define TFLITE_OP_RESOLVER_H_

#include "tensorflow/lite/op_resolver.h"

#endif
