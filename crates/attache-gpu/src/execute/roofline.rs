//! Measurement of a device's peak memory bandwidth and peak arithmetic rates.
//!
//! The *roofline* of a dispatch is the minimum of the peak arithmetic rate and of the peak bandwidth times
//! the operations per byte. No shader can execute its operations at a higher rate. Each peak is measured with
//! a shader that only copies memory or only computes. The shader is recorded and timed like the shaders of a
//! network, and the fastest of several dispatches determines the peak.

use std::sync::Arc;

use super::{Runs, interface};
use crate::device::{Device, ShaderCode, Submission};
use crate::kernel::{GpuError, GpuErrorKind};
use crate::plan::{BoundRange, BufferRange, Dispatch, Plan, PlanBuffer};

/// The measured peak rates of a device.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct DevicePeaks {
    /// Bytes read plus bytes written per second by a copy from one buffer to another.
    pub bytes_per_second: f64,
    /// f32 operations per second. A multiply-add counts as two.
    pub operations_per_second: f64,
    /// Operations per second with cooperative matrices, f16 matrices with f32 accumulation. A multiply-add
    /// counts as two. `None` if the device has no cooperative matrices.
    pub matrix_operations_per_second: Option<f64>,
}

/// Number of invocations of a work group, except with cooperative matrices. Every device allows this many.
const GROUP: usize = 128;

/// Number of dispatches of each measurement. The fastest one determines the peak.
const REPEATS: usize = 8;

/// Number of vectors of four f32 elements that an invocation copies, or to which it applies independent
/// multiply-adds.
const UNITS: usize = 8;

/// Number of multiply-adds of each vector in one iteration of the loop.
const UNROLLED: usize = 4;

/// Number of left matrices of a subgroup, which multiplies each of them by each of its right matrices.
const LEFT: usize = 2;
/// Number of right matrices of a subgroup.
const RIGHT: usize = 4;
/// Number of rows, and of columns, of each matrix.
const EXTENT: usize = 16;

/// Nanoseconds that a dispatch of arithmetic should take, so that the time to start the dispatch is
/// negligible.
const LONG: f64 = 1e6;

impl DevicePeaks {
    /// Measures the peaks of a device that has timestamps.
    ///
    /// # Errors
    ///
    /// Fails if the device does not support the submission method, has no timestamps, is out of memory or is lost.
    pub fn measure(device: &Device, submission: Submission) -> Result<Self, GpuError> {
        let bench = Bench { device, submission };
        let matrices = wgpu::Features::EXPERIMENTAL_COOPERATIVE_MATRIX;
        let has_matrices = device.adapter().cooperative_matrices && device.wgpu().features().contains(matrices);
        Ok(Self {
            bytes_per_second: bench.copy()?,
            operations_per_second: bench.arithmetic()?,
            matrix_operations_per_second: has_matrices.then(|| bench.matrices()).transpose()?,
        })
    }
}

struct Bench<'a> {
    device: &'a Device,
    submission: Submission,
}

impl Bench<'_> {
    /// Measures the bytes read plus bytes written per second by a copy.
    fn copy(&self) -> Result<f64, GpuError> {
        // On hardware, much more than the caches hold, unless the limits or the memory of the device are smaller.
        let most = if self.device.adapter().is_software { 8 << 20 } else { 512 << 20 };
        let mut bytes = self.device.limits().max_binding_bytes.min(most);
        loop {
            let groups = bytes / (GROUP * UNITS * 16);
            match self.fastest(&Arc::new(copying(self.space(), groups))) {
                Ok(nanoseconds) => return Ok((2 * groups * GROUP * UNITS * 16) as f64 / nanoseconds * 1e9),
                Err(error) if too_large(&error) && bytes > 1 << 20 => bytes /= 2,
                Err(error) => return Err(error),
            }
        }
    }

    /// Measures the f32 operations per second. A multiply-add counts as two.
    fn arithmetic(&self) -> Result<f64, GpuError> {
        let groups = if self.device.adapter().is_software { 8 } else { 8192 };
        let operations = 2 * groups * GROUP * UNITS * 4 * UNROLLED;
        self.rate(operations, |loops| multiplying(self.space(), groups, loops))
    }

    /// Measures the operations per second of cooperative matrices. A multiply-add counts as two.
    fn matrices(&self) -> Result<f64, GpuError> {
        let groups = 8192;
        let operations = 2 * groups * LEFT * RIGHT * EXTENT.pow(3);
        self.rate(operations, |loops| multiplying_matrices(self.space(), groups, loops))
    }

    /// Measures the operations per second of a plan. `plan` makes the plan for a number of iterations, each
    /// of which executes `operations` operations. Increases the number of iterations until a dispatch takes
    /// long enough.
    fn rate(&self, operations: usize, plan: impl Fn(u32) -> Plan) -> Result<f64, GpuError> {
        let (mut loops, most) = (8, 1 << 16);
        loop {
            let nanoseconds = self.fastest(&Arc::new(plan(loops)))?;
            if nanoseconds >= LONG / 4.0 || loops >= most {
                return Ok(operations as f64 * f64::from(loops) / nanoseconds * 1e9);
            }
            loops = (f64::from(loops) * LONG / nanoseconds).min(most.into()) as u32;
        }
    }

    /// Runs a plan twice and returns the nanoseconds of the fastest dispatch of the second run. The first run
    /// brings the device out of its idle state.
    fn fastest(&self, plan: &Arc<Plan>) -> Result<f64, GpuError> {
        let (loaded, _) =
            interface(self.device, self.submission)?.load(plan, &Vec::new(), ShaderCode::Compile, None)?;
        let mut recording = loaded.record(Runs { timed: true, ..Runs::default() })?;
        recording.submit(0, true)?;
        recording.submit(0, true)?;
        let spans = recording.times()?.spans;
        let fastest = spans.iter().map(|span| span.end - span.begin).filter(|time| *time > 0.0).reduce(f64::min);
        fastest.ok_or_else(|| GpuError::new(GpuErrorKind::Failed, "the device's timestamps stand still"))
    }

    /// Returns the WGSL address space of the parameters. They are always in a buffer, never constants in the
    /// shader, so that plans of all numbers of iterations have the same shader.
    fn space(&self) -> &'static str {
        self.device.limits().params.space().unwrap_or("uniform")
    }
}

/// Returns a plan in which each invocation copies [`UNITS`] vectors. Adjacent invocations copy adjacent
/// vectors.
fn copying(space: &str, groups: usize) -> Plan {
    let stride = groups * GROUP;
    let source = format!(
        "{}@compute @workgroup_size({GROUP})
fn main(@builtin(global_invocation_id) id: vec3<u32>) {{\n{}{}}}\n",
        bindings(space, "vec4<f32>", "vec4<f32>"),
        each(UNITS, |unit| format!("    let v{unit} = b1[id.x + {unit}u * params[0].x];\n")),
        each(UNITS, |unit| format!("    b2[id.x + {unit}u * params[0].x] = v{unit};\n")),
    );
    plan(source, vec![stride as u32], [stride * UNITS * 4; 2], groups)
}

/// Returns a plan in which each invocation applies `loops` iterations of independent multiply-adds to vectors
/// in registers. It writes one element, so that the compiler cannot remove the arithmetic.
fn multiplying(space: &str, groups: usize, loops: u32) -> Plan {
    let source = format!(
        "{}@compute @workgroup_size({GROUP})
fn main(@builtin(global_invocation_id) id: vec3<u32>) {{
    let scale = bitcast<vec4<f32>>(params[0].yyyy);
    let shift = b1[0] + bitcast<vec4<f32>>(params[0].zzzz);
{}    for (var i = 0u; i < params[0].x; i++) {{\n{}    }}
    let sum = {};
    b2[id.x] = sum.x + sum.y + sum.z + sum.w;\n}}\n",
        bindings(space, "vec4<f32>", "f32"),
        each(UNITS, |unit| format!("    var v{unit} = vec4<f32>(f32(id.x + {unit}u)) * scale;\n")),
        each(UNITS, |unit| format!("        v{unit} = fma(v{unit}, scale, shift);\n")).repeat(UNROLLED),
        (0..UNITS).map(|unit| format!("v{unit}")).collect::<Vec<_>>().join(" + "),
    );
    plan(source, vec![loops, 0.5f32.to_bits(), 0.25f32.to_bits()], [4, groups * GROUP], groups)
}

/// Returns a plan in which each work group is one subgroup, which multiplies the same few matrices in each of
/// `loops` iterations, accumulates the products, and writes the accumulated matrices.
fn multiplying_matrices(space: &str, groups: usize, loops: u32) -> Plan {
    let area = EXTENT * EXTENT;
    let load = |name: &str, role: char, count: usize, from: usize| {
        each(count, |unit| {
            let at = (from + unit) * area;
            format!("    let {name}{unit} = coopLoadT<coop_mat16x16<f16,{role}>>(&b1[{at}], {EXTENT}u);\n")
        })
    };
    let pairs = |text: &dyn Fn(usize, usize) -> String| each(LEFT, |a| each(RIGHT, |b| text(a, b)));
    let store = |a: usize, b: usize| {
        let (at, area) = ((a * RIGHT + b) * area, LEFT * RIGHT * area);
        format!("    let at{a}{b} = group.x * {area}u + {at}u;\n    coopStoreT(sum{a}{b}, &b2[at{a}{b}], {EXTENT}u);\n")
    };
    let source = format!(
        "enable f16;\nenable wgpu_cooperative_matrix;\n{}@compute @workgroup_size(32)
fn main(@builtin(workgroup_id) group: vec3<u32>) {{
{}{}{}    for (var i = 0u; i < params[0].x; i++) {{\n{}    }}\n{}}}\n",
        bindings(space, "f16", "f32"),
        load("left", 'A', LEFT, 0),
        load("right", 'B', RIGHT, LEFT),
        pairs(&|a, b| format!("    var sum{a}{b} = coop_mat16x16<f32,C>();\n")),
        pairs(&|a, b| format!("        sum{a}{b} = coopMultiplyAdd(left{a}, right{b}, sum{a}{b});\n")),
        pairs(&store),
    );
    // f16 elements need half the memory.
    let elements = [(LEFT + RIGHT) * area / 2, groups * LEFT * RIGHT * area];
    plan(source, vec![loops], elements, groups)
}

/// Concatenates `count` lines of WGSL.
fn each(count: usize, line: impl Fn(usize) -> String) -> String {
    (0..count).map(line).collect()
}

/// Returns the WGSL declarations of a shader's bindings: the parameters, an array of `read` elements that it
/// reads, and an array of `written` elements that it writes.
fn bindings(space: &str, read: &str, written: &str) -> String {
    format!(
        "@group(0) @binding(0) var<{space}> params: array<vec4<u32>, 1>;
@group(0) @binding(1) var<storage, read> b1: array<{read}>;
@group(0) @binding(2) var<storage, read_write> b2: array<{written}>;\n"
    )
}

/// Whether a measurement that failed with this error may succeed with smaller buffers.
fn too_large(error: &GpuError) -> bool {
    matches!(error.kind(), GpuErrorKind::OutOfMemory | GpuErrorKind::Unsupported)
}

/// Returns a plan that dispatches one shader [`REPEATS`] times. `elements` are the numbers of 4-byte elements
/// of the buffer that it reads and of the buffer that it writes; `groups` is the number of work groups.
fn plan(source: String, params: Vec<u32>, elements: [usize; 2], groups: usize) -> Plan {
    let bytes = elements.map(|elements| elements * 4);
    let bound = |bank: usize, writes: bool| {
        let range = BufferRange { buffer: PlanBuffer::Bank(bank), offset: 0, size: bytes[bank] };
        BoundRange { range, writes }
    };
    let (bindings, groups) = (vec![bound(0, false), bound(1, true)], [groups as u32, 1, 1]);
    let dispatch = |needs_barrier| {
        let (params, bindings) = (params.clone(), bindings.clone());
        Dispatch { shader: 0, groups, params, bindings, needs_barrier }
    };
    let dispatches = (0..REPEATS).map(|repeat| dispatch(repeat > 0)).collect();
    Plan { shaders: vec![source], dispatches, banks: bytes.to_vec(), ..Plan::default() }
}

#[cfg(test)]
mod tests {
    use wgpu::naga::{back::spv, front, valid};

    use super::*;

    #[test]
    fn the_shaders_are_valid() {
        for plan in [copying("uniform", 4), multiplying("uniform", 4, 8), multiplying_matrices("uniform", 4, 8)] {
            let source = &plan.shaders[0];
            let module =
                front::wgsl::parse_str(source).unwrap_or_else(|error| panic!("{}", error.emit_to_string(source)));
            let mut validator = valid::Validator::new(valid::ValidationFlags::all(), valid::Capabilities::all());
            let info = validator.validate(&module).unwrap_or_else(|error| panic!("{}", error.emit_to_string(source)));
            let options = spv::Options { lang_version: (1, 6), ..spv::Options::default() };
            spv::write_vec(&module, &info, &options, None).unwrap();
        }
    }
}
