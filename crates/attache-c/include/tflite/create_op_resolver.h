/* create_op_resolver.h under another path. */

#ifndef TFLITE_CREATE_OP_RESOLVER_H_
#define TFLITE_CREATE_OP_RESOLVER_H_

#include "tensorflow/lite/create_op_resolver.h"

#endif
