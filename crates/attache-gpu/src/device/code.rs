//! What devices and drivers make of the shaders of a plan, and where it comes from when a plan is loaded.

/// Where a plan's shaders come from when it is loaded.
#[derive(Clone, Copy, Debug)]
pub enum ShaderCode<'a> {
    /// They are compiled from their text.
    Compile,
    /// They are compiled from their text, and the result is kept for [`LoadedPlan::code`](crate::LoadedPlan::code).
    CompileAndKeep,
    /// They were compiled before. What the interface cannot use of the code, it compiles from the text.
    Stored(&'a DeviceCode),
}

/// What a device and its driver made of a plan's shaders.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceCode {
    /// The SPIR-V words of each shader of the plan; empty if the interface takes the text.
    pub shaders: Vec<Vec<u32>>,
    /// The driver's cache of pipelines; empty if there is none.
    pub pipelines: Vec<u8>,
}
