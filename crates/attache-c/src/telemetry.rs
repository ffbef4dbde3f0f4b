//! TensorFlow Lite's own telemetry. Nothing here makes the structs that these functions read, so they return nothing.

use std::ffi::{c_int, c_void};

use crate::guard::exports;

exports! {
    /// Returns null.
    fn TfLiteTelemetryConversionMetadataGetModelOptimizationModes(_metadata: *const c_void) -> *const i32 {
        std::ptr::null()
    } else std::ptr::null();

    /// Returns 0.
    fn TfLiteTelemetryConversionMetadataGetNumModelOptimizationModes(_metadata: *const c_void) -> usize {
        0
    } else 0;

    /// Returns 0, an unknown backend.
    fn TfLiteTelemetryGpuDelegateSettingsGetBackend(_settings: *const c_void) -> c_int {
        0
    } else 0;

    /// Returns 0.
    fn TfLiteTelemetryGpuDelegateSettingsGetNumNodesDelegated(_settings: *const c_void) -> usize {
        0
    } else 0;

    /// Returns null.
    fn TfLiteTelemetryInterpreterSettingsGetConversionMetadata(_settings: *const c_void) -> *const c_void {
        std::ptr::null()
    } else std::ptr::null();

    /// Returns 0.
    fn TfLiteTelemetryInterpreterSettingsGetNumSubgraphInfo(_settings: *const c_void) -> usize {
        0
    } else 0;

    /// Returns null.
    fn TfLiteTelemetryInterpreterSettingsGetSubgraphInfo(_settings: *const c_void) -> *const c_void {
        std::ptr::null()
    } else std::ptr::null();

    /// Returns 0.
    fn TfLiteTelemetrySubgraphInfoGetNumQuantizations(_info: *const c_void) -> usize {
        0
    } else 0;

    /// Returns null.
    fn TfLiteTelemetrySubgraphInfoGetQuantizations(_info: *mut c_void) -> *const c_void {
        std::ptr::null()
    } else std::ptr::null();
}
