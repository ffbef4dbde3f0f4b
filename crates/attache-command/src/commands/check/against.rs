//! Provides the reference that `check` compares with: the case's files, or the CPU.

use std::path::Path;

use attache::diff::{Difference, OperatorComparison, Tolerance, Trace, TraceInput};
use attache::{Interpreter, Limits, Model};
use clap::ValueEnum;

use super::{Mismatch, check_count, output};
use crate::device::Device;
use crate::failure::Failure;
use crate::io::golden::Case;

/// What outputs are compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Against {
    /// The files out_K.npy
    Golden,
    /// The outputs of the CPU; no out_K.npy are needed
    Cpu,
    /// Each operator alone, on the CPU's tensors
    Operators,
}

impl Against {
    /// Reads the case in a folder, with the CPU's outputs if those are the reference.
    pub(super) fn case(self, folder: &Path, model: &Model, limits: &Limits) -> Result<Case, Failure> {
        let mut case = Case::read(folder)?;
        check_count("in", model.subgraphs()[0].inputs.len(), case.inputs.len())?;
        if self == Against::Cpu {
            let shapes = case.inputs.iter().enumerate();
            let builder = shapes
                .fold(Interpreter::builder(model).threads(1).limits(limits.clone()), |builder, (index, input)| {
                    builder.input_shape(index, &input.shape)
                });
            let mut interpreter = builder.build()?;
            for (index, input) in case.inputs.iter().enumerate() {
                interpreter.write_bytes(index, &input.bytes)?;
            }
            interpreter.invoke()?;
            let count = interpreter.outputs().len();
            case.outputs = (0..count).map(|index| output(&interpreter, index)).collect::<Result<_, _>>()?;
            case.notes.scale = trace(&case, model, limits)?.magnitude();
        }
        Ok(case)
    }
}

/// Runs a case on the CPU and keeps all tensors of the run.
pub(super) fn trace(case: &Case, model: &Model, limits: &Limits) -> Result<Trace, Failure> {
    let input = |input: &crate::io::array::Array| TraceInput { shape: input.shape.clone(), bytes: input.bytes.clone() };
    let inputs: Vec<TraceInput> = case.inputs.iter().map(input).collect();
    Ok(Trace::new(model, 0, &inputs, 1, limits)?)
}

/// Whether rounding the operators' inputs to f16 changes the CPU's own outputs beyond the tolerance, relative to
/// `scale`.
pub(super) fn is_ill_conditioned(trace: &Trace, scale: f64, tolerance: &Tolerance) -> Result<bool, Failure> {
    let beyond = |difference: &Difference| {
        let relative = difference.largest / difference.scale.max(if difference.is_float { scale } else { 0.0 });
        let differs = if difference.is_float { relative > tolerance.relative } else { difference.largest > 0.0 };
        differs || difference.contradictions > 0
    };
    Ok(trace.rounding_differences()?.iter().any(beyond))
}

/// Runs each operator alone on the device, on the CPU's tensors. Returns the mismatches, and the number of
/// operators that the device ran and of all operators.
pub(super) fn operators(
    case: &str,
    trace: &Trace,
    device: &Device,
    tolerance: &Tolerance,
) -> Result<(Vec<Mismatch>, [usize; 2]), Failure> {
    let delegates = device.delegates();
    let (mut mismatches, mut taken) = (Vec::new(), 0);
    for node in 0..trace.nodes() {
        let OperatorComparison { operator, name, outcome, .. } = trace.compare_operator(node, &delegates)?;
        let Ok(differences) = outcome else { continue };
        taken += 1;
        let wrong = differences.iter().enumerate().filter(|(_, difference)| !difference.is_within(tolerance));
        mismatches.extend(wrong.map(|(index, difference)| Mismatch {
            case: case.to_owned(),
            operator: format!("operator {operator}, {name}"),
            output: Some(index),
            error: Some(difference.relative()).filter(|error| error.is_finite()),
            limit: Some(tolerance.relative),
            message: format!("off by {:e}, {:?} by steps", difference.relative(), difference.steps),
        }));
    }
    Ok((mismatches, [taken, trace.nodes()]))
}
