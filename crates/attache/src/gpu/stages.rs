//! Prints the stages of the GPU delegate as text: program, kernels, shaders, plan.

use std::fmt::Write;
use std::sync::{Arc, Mutex};

use attache_gpu::{Epilogue, GpuError, Kernel, PlanReport, interface};
use attache_gpu_ir::{Primitive, Step, ValueId};
use attache_graph::{TensorMut, TensorRef, Unsupported};
use attache_model::Model;

use super::delegate::GpuDelegate;
use super::program::stitch;
use crate::{
    Claim, Delegate, DelegateError, DelegateKernel, Error, ErrorKind, Limits, NodeContext, Partition, Partitioning,
    PreparedPartition,
};

/// A stage of the preparation of a partition, which [`stage`] prints as text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum GpuStage {
    /// The program of primitives, before fusion.
    Program,
    /// The kernels after fusion, one per line.
    Kernels,
    /// The WGSL source of each distinct shader.
    Wgsl,
    /// The dispatches and the memory plan.
    Plan,
}

/// Returns a stage of every partition of a subgraph as text. Nothing runs on the device.
///
/// # Errors
///
/// If the subgraph does not exist, is invalid or exceeds `limits`, or if the delegate panics.
pub fn stage(
    model: &Model,
    subgraph: usize,
    shapes: &[(usize, Vec<usize>)],
    delegate: &GpuDelegate,
    stage: GpuStage,
    limits: &Limits,
) -> Result<String, Error> {
    let printer = Arc::new(Printer { delegate: delegate.clone(), stage, text: Mutex::default() });
    let delegate: Arc<dyn Delegate> = printer.clone();
    let prepared = crate::stages::prepared(model, subgraph, shapes, std::slice::from_ref(&delegate), limits)?;
    if let Some(panic) = prepared.report.panics.first().cloned() {
        return Err(Error::new(ErrorKind::Device, panic));
    }
    let text = printer.text.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    Ok(text.clone())
}

/// Claims nodes as the delegate does, but prints each partition instead of preparing it.
struct Printer {
    delegate: GpuDelegate,
    stage: GpuStage,
    text: Mutex<String>,
}

impl Printer {
    fn print(&self, partition: Partition<'_>) -> Result<String, DelegateError> {
        let program = stitch(partition, None)?.program;
        if self.stage == GpuStage::Program {
            return Ok(program.to_string());
        }
        let failed = |error: GpuError| DelegateError::new(error.to_string());
        let interface = interface(self.delegate.device(), self.delegate.usual_submission()).map_err(failed)?;
        let (precision, limits) = (self.delegate.precision(), interface.limits());
        let plan = PlanReport::new(program, precision, limits, interface.keeps_apart()).map_err(failed)?;
        if self.stage == GpuStage::Plan {
            return Ok(plan.to_string());
        }
        if self.stage == GpuStage::Kernels {
            return Ok(kernels(&plan));
        }
        let mut sources: Vec<(&str, &str)> = Vec::new();
        for dispatch in &plan.dispatches {
            let source = (dispatch.shader.variant, dispatch.shader.source.as_str());
            if !sources.contains(&source) {
                sources.push(source);
            }
        }
        Ok(sources.iter().map(|(variant, source)| format!("// {variant}\n{source}\n")).collect())
    }
}

/// Returns the text of a plan's kernels, with the plan's inputs and outputs and the values that are reshapes
/// of others.
fn kernels(plan: &PlanReport) -> String {
    let input = |id: &ValueId| format!("%{} = input {}\n", id.0, plan.program.shape(*id));
    let reshape = |step: &Step| {
        let is_reshape = matches!(step.primitive, Primitive::Reshape(_));
        is_reshape.then(|| format!("{} is {}\n", values(&step.outputs), values(&step.inputs)))
    };
    let inputs = plan.program.inputs.iter().map(input);
    let reshapes = plan.program.steps.iter().filter_map(reshape);
    let kernels = plan.kernels.iter().enumerate().map(|it| line(plan, it));
    let text: String = inputs.chain(reshapes).chain(kernels).collect();
    format!("{text}output {}\n", values(&plan.program.outputs))
}

/// Returns the line of one kernel: its outputs, its primitive and inputs, and the nodes that it computes.
/// Nodes are numbered by their index in the partition, as in the text of a program.
fn line(plan: &PlanReport, (index, kernel): (usize, &Kernel)) -> String {
    let shapes: Vec<_> = kernel.outputs.iter().map(|id| plan.program.shape(*id).to_string()).collect();
    let mut line = format!("{index}: {} = {}", values(&kernel.outputs), call(kernel));
    line += &format!(" -> {}  # {:?}: {}", shapes.join(", "), kernel.origins, kernel.primitive.parameters());
    let epilogue = match &kernel.epilogue {
        _ if kernel.epilogue.is_identity() => None,
        Epilogue::Float(expression) => Some(expression.to_string()),
        Epilogue::Int(expression) => Some(expression.to_string()),
    };
    if let Some(epilogue) = epilogue {
        line += &format!(", epilogue {epilogue} of ({})", values(&kernel.operands));
    }
    if let Some(prologue) = &kernel.prologue {
        line += &format!(", prologue {} = {}", values(&prologue.outputs), call(prologue));
    }
    let views = kernel.views.iter().chain(kernel.prologue.iter().flat_map(|prologue| &prologue.views));
    views.for_each(|view| line += &format!(", %{} read in %{}", view.value.0, view.source.0));
    line + "\n"
}

fn call(kernel: &Kernel) -> String {
    format!("{}({})", kernel.primitive.name(), values(&kernel.inputs))
}

fn values(ids: &[ValueId]) -> String {
    ids.iter().map(|id| format!("%{}", id.0)).collect::<Vec<_>>().join(", ")
}

impl Delegate for Printer {
    fn name(&self) -> &str {
        self.delegate.name()
    }

    fn partitioning(&self) -> Partitioning {
        self.delegate.partitioning()
    }

    fn claim(&self, node: NodeContext<'_>) -> Result<Claim, Unsupported> {
        self.delegate.claim(node)
    }

    fn prepare(&self, partition: Partition<'_>) -> Result<Box<dyn PreparedPartition>, DelegateError> {
        let printed = self.print(partition)?;
        let _ = writeln!(self.text.lock().unwrap_or_else(|poisoned| poisoned.into_inner()), "{printed}");
        Ok(Box::new(Printed))
    }
}

/// A partition that was printed, and its kernel, which cannot run. Preparation must succeed, because a failure
/// would drop all later partitions.
struct Printed;

impl PreparedPartition for Printed {
    fn kernel(&self) -> Result<Box<dyn DelegateKernel>, DelegateError> {
        Ok(Box::new(Self))
    }
}

impl DelegateKernel for Printed {
    fn invoke(&mut self, _: &[TensorRef<'_>], _: &mut [TensorMut<'_>]) -> Result<(), DelegateError> {
        Err(DelegateError::new("what was only written down cannot run"))
    }
}
