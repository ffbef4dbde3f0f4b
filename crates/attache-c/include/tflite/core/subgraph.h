/* subgraph.h under another path. */

#ifndef TFLITE_CORE_SUBGRAPH_H_
#define TFLITE_CORE_SUBGRAPH_H_

#include "tensorflow/lite/core/subgraph.h"

#endif
