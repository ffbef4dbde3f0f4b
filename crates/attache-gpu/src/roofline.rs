//! What a device does at best, measured: how fast it moves memory, and how fast it multiplies and adds.
//!
//! The *roofline* of a dispatch is the lesser of the arithmetic rate and of bandwidth × operations for each byte: no shader
//! does its operations faster. Both ceilings are shaders that do nothing else, run and timed as any other; of several
//! runs the fastest counts.

use attache_gpu_ir::{Expression, Primitive, Program, Scalar, ValueId};

use crate::device::Device;
use crate::error::{GpuError, GpuErrorKind};
use crate::layout::{Layout, Place};
use crate::plan::{Dispatch, Plan};
use crate::precision::Precision;
use crate::recording::Submission;
use crate::shader::{Binding, Shader};
use crate::storage::{Storage, Storages};
use crate::work::Work;

/// The most that a device does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ceilings {
    /// Bytes read and written by a copy from memory to memory.
    pub bytes_per_second: f64,
    /// Operations of binary32, two for each multiply-add.
    pub operations_per_second: f64,
}

/// Invocations of a work group: as many as every device allows.
const GROUP: usize = 128;

/// Dispatches of which the fastest counts.
const REPEATS: usize = 8;

/// Vectors of four numbers that an invocation copies, or multiplies and adds at once.
const UNITS: usize = 8;

/// Multiply-adds of each of those vectors before the loop goes on.
const UNROLLED: usize = 4;

/// Nanoseconds that a dispatch of arithmetic should take: long beside its start.
const LONG: f64 = 1e6;

impl Ceilings {
    /// Measures them on a device that has timestamps: some milliseconds of its time.
    pub fn measure(device: &Device, submission: Submission) -> Result<Self, GpuError> {
        let bench = Bench { device, submission };
        Ok(Self { bytes_per_second: bench.copy()?, operations_per_second: bench.arithmetic()? })
    }

    /// Nanoseconds that this work takes at the least.
    pub fn least_nanoseconds(&self, work: &Work) -> f64 {
        let moved = (work.bytes_read + work.bytes_written) as f64 / self.bytes_per_second;
        moved.max(work.operations as f64 / self.operations_per_second) * 1e9
    }
}

struct Bench<'a> {
    device: &'a Device,
    submission: Submission,
}

impl Bench<'_> {
    /// Bytes that a copy moves in a second.
    fn copy(&self) -> Result<f64, GpuError> {
        // Far more than caches hold, unless the device has less.
        let most = if self.device.adapter().is_software { 8 << 20 } else { 512 << 20 };
        let mut bytes = self.device.limits().max_binding_bytes.min(most);
        loop {
            let groups = bytes / (GROUP * UNITS * 16);
            match self.fastest(&self.copying(groups)) {
                Ok(nanoseconds) => return Ok((2 * groups * GROUP * UNITS * 16) as f64 / nanoseconds * 1e9),
                Err(error) if too_large(&error) && bytes > 1 << 20 => bytes /= 2,
                Err(error) => return Err(error),
            }
        }
    }

    /// Operations in a second.
    fn arithmetic(&self) -> Result<f64, GpuError> {
        let groups = if self.device.adapter().is_software { 8 } else { 8192 };
        let mut loops = 8;
        loop {
            let nanoseconds = self.fastest(&self.multiplying(groups, loops))?;
            if nanoseconds >= LONG / 4.0 || loops >= 1 << 16 {
                let multiply_adds = (groups * GROUP * UNITS * 4 * UNROLLED) as f64 * f64::from(loops);
                return Ok(2.0 * multiply_adds / nanoseconds * 1e9);
            }
            loops = (f64::from(loops) * LONG / nanoseconds.max(1.0)).clamp(16.0, f64::from(1 << 16)) as u32;
        }
    }

    /// Nanoseconds of the fastest dispatch of a plan, the device being awake.
    fn fastest(&self, plan: &Plan) -> Result<f64, GpuError> {
        let (mut recording, _) = self.submission.record(self.device, plan, true)?;
        recording.submit()?;
        recording.submit()?;
        let spans = recording.times()?.spans;
        let fastest = spans.iter().map(|span| span.end - span.begin).filter(|time| *time > 0.0).reduce(f64::min);
        fastest.ok_or_else(|| GpuError::new(GpuErrorKind::Failed, "the device's timestamps stand still"))
    }

    /// Every invocation copies some vectors, neighbours taking neighbouring ones.
    fn copying(&self, groups: usize) -> Plan {
        let stride = groups * GROUP;
        let each = |text: &dyn Fn(usize) -> String| (0..UNITS).map(text).collect::<String>();
        let source = format!(
            "{}@group(0) @binding(1) var<storage, read> b1: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read_write> b2: array<vec4<f32>>;
@compute @workgroup_size({GROUP})
fn main(@builtin(global_invocation_id) id: vec3<u32>) {{\n{}{}}}\n",
            self.params(),
            each(&|unit| format!("    let v{unit} = b1[id.x + {unit}u * params[0].x];\n")),
            each(&|unit| format!("    b2[id.x + {unit}u * params[0].x] = v{unit};\n")),
        );
        plan("copy", source, vec![stride as u32], [stride * UNITS * 4; 2], groups)
    }

    /// Every invocation multiplies and adds in registers, independent of each other, and writes one number, lest the
    /// compiler finds out.
    fn multiplying(&self, groups: usize, loops: u32) -> Plan {
        let each = |text: &dyn Fn(usize) -> String| (0..UNITS).map(text).collect::<String>();
        let step = each(&|unit| format!("        v{unit} = fma(v{unit}, scale, shift);\n"));
        let source = format!(
            "{}@group(0) @binding(1) var<storage, read> b1: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read_write> b2: array<f32>;
@compute @workgroup_size({GROUP})
fn main(@builtin(global_invocation_id) id: vec3<u32>) {{
    let scale = bitcast<vec4<f32>>(params[0].yyyy);
    let shift = b1[0] + bitcast<vec4<f32>>(params[0].zzzz);
{}    for (var i = 0u; i < params[0].x; i++) {{\n{}    }}
    let sum = {};
    b2[id.x] = sum.x + sum.y + sum.z + sum.w;\n}}\n",
            self.params(),
            each(&|unit| format!("    var v{unit} = vec4<f32>(f32(id.x + {unit}u)) * scale;\n")),
            step.repeat(UNROLLED),
            (0..UNITS).map(|unit| format!("v{unit}")).collect::<Vec<_>>().join(" + "),
        );
        plan("multiply_add", source, vec![loops, 0.5f32.to_bits(), 0.25f32.to_bits()], [4, groups * GROUP], groups)
    }

    fn params(&self) -> String {
        let space = self.device.limits().params.space();
        format!("@group(0) @binding(0) var<{space}> params: array<vec4<u32>, 1>;\n")
    }
}

/// Whether a smaller buffer may fit.
fn too_large(error: &GpuError) -> bool {
    matches!(error.kind(), GpuErrorKind::OutOfMemory | GpuErrorKind::Unsupported)
}

/// Dispatches of one shader, which reads and writes so many numbers. No kernel stands behind them.
fn plan(variant: &'static str, source: String, params: Vec<u32>, elements: [usize; 2], groups: usize) -> Plan {
    let mut program = Program::default();
    let values: Vec<ValueId> = elements.iter().map(|elements| value(&mut program, *elements)).collect();
    let bindings = vec![Binding::Read(values[0]), Binding::Write(values[1], Storage::F32)];
    let shader = Shader { variant, source, bindings, params, groups: [groups as u32, 1, 1] };
    let layout = Layout {
        places: (0..values.len()).map(|bank| Place::Bank { bank, offset: 0 }).collect(),
        banks: elements.map(|elements| elements * 4).to_vec(),
        ..Layout::default()
    };
    let storages = Storages::new(&program, Storage::F32);
    let dispatches = vec![Dispatch { shader, kernel: 0 }; REPEATS];
    Plan { program, precision: Precision::F32, storages, kernels: Vec::new(), dispatches, layout }
}

/// A value that nobody has to make.
fn value(program: &mut Program, elements: usize) -> ValueId {
    let zeros = Primitive::Map { expression: Expression::Constant(0.0), shape: [elements].into(), scalar: Scalar::F32 };
    program.step(zeros, &[], 0).expect("a constant has every shape")[0]
}
