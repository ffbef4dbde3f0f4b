// Takes the times of runs, in C++.

#ifndef TENSORFLOW_LITE_CORE_API_PROFILER_H_
#define TENSORFLOW_LITE_CORE_API_PROFILER_H_

#include <cstdint>

namespace tflite {

// A profiler of the program's. Interpreters tell it when they allocate tensors, and when subgraphs and their nodes run.
class Profiler {
 public:
  enum class EventType {
    DEFAULT = 1,
    OPERATOR_INVOKE_EVENT = 1 << 1,
    DELEGATE_OPERATOR_INVOKE_EVENT = 1 << 2,
    DELEGATE_PROFILED_OPERATOR_INVOKE_EVENT = 1 << 3,
    GENERAL_RUNTIME_INSTRUMENTATION_EVENT = 1 << 4,
    TELEMETRY_EVENT = 1 << 5,
    TELEMETRY_REPORT_SETTINGS = 1 << 6,
    TELEMETRY_DELEGATE_EVENT = 1 << 7,
    TELEMETRY_DELEGATE_REPORT_SETTINGS = 1 << 8
  };

  virtual ~Profiler() = default;

  // Begins an event, and returns a number by which it is ended. The first number of an event of an
  // interpreter is the index of the node where it is about one, and the second one that of the subgraph.
  virtual uint32_t BeginEvent(
      const char* tag, EventType event_type, int64_t event_metadata1, int64_t event_metadata2) = 0;
  uint32_t BeginEvent(const char* tag, EventType event_type, int64_t event_metadata) {
    return BeginEvent(tag, event_type, event_metadata, 0);
  }
  virtual void EndEvent(uint32_t event_handle, int64_t, int64_t) { EndEvent(event_handle); }
  virtual void EndEvent(uint32_t event_handle) = 0;

  // An event that has ended, in microseconds.
  virtual void AddEvent(const char*, EventType, uint64_t, int64_t, int64_t) {}
  void AddEvent(const char* tag, EventType event_type, uint64_t elapsed_time, int64_t event_metadata) {
    AddEvent(tag, event_type, elapsed_time, event_metadata, 0);
  }
  virtual void AddEventWithData(const char*, EventType, const void*) {}
};

// An event that lasts as long as the object. The profiler may be null.
class ScopedProfile {
 public:
  ScopedProfile(
      Profiler* profiler, const char* tag, Profiler::EventType event_type = Profiler::EventType::DEFAULT,
      int64_t event_metadata = 0)
      : profiler_(profiler), handle_(profiler ? profiler->BeginEvent(tag, event_type, event_metadata) : 0) {}
  ~ScopedProfile() {
    if (profiler_) profiler_->EndEvent(handle_);
  }
  ScopedProfile(const ScopedProfile&) = delete;
  ScopedProfile& operator=(const ScopedProfile&) = delete;

 private:
  Profiler* const profiler_;
  const uint32_t handle_;
};

}  // namespace tflite

#endif
