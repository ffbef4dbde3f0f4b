//! The GPU's stages as text: program, shaders, plan.

use std::fmt::Write;
use std::sync::{Arc, Mutex};

use attache_gpu::Plan;
use attache_graph::{Graph, NodeId, Refusal, TensorMut, TensorRef};
use attache_model::Model;

use super::delegate::{GpuDelegate, stitch};
use crate::{Claim, Delegate, DelegateError, DelegateKernel, Error, ErrorKind, Island, Limits, Partitioning};

/// A stage between an island and a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GpuStage {
    /// The primitives.
    Program,
    /// The text of every distinct shader.
    Wgsl,
    /// Dispatches and memory.
    Plan,
}

/// A stage of every island of a subgraph that asks for no more than `limits`, as text.
pub fn stage(
    model: &Model,
    subgraph: usize,
    delegate: &GpuDelegate,
    stage: GpuStage,
    limits: &Limits,
) -> Result<String, Error> {
    let printer = Arc::new(Printer { delegate: delegate.clone(), stage, text: Mutex::default() });
    let delegate: Arc<dyn Delegate> = printer.clone();
    let prepared = crate::stages::prepared(model, subgraph, std::slice::from_ref(&delegate), limits)?;
    if let Some(panic) = prepared.report.panics.into_iter().next() {
        return Err(Error::new(ErrorKind::Device, panic));
    }
    let text = printer.text.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    Ok(text.clone())
}

/// Claims as the delegate does, and instead of preparing an island writes down what it would become.
struct Printer {
    delegate: GpuDelegate,
    stage: GpuStage,
    text: Mutex<String>,
}

impl Printer {
    fn print(&self, island: Island<'_>) -> Result<String, DelegateError> {
        let program = stitch(island)?.program;
        if self.stage == GpuStage::Program {
            return Ok(program.to_string());
        }
        let (device, submission) = (self.delegate.device(), self.delegate.usual_submission());
        let plan = Plan::new(program, self.delegate.precision(), device.limits(), submission);
        let plan = plan.map_err(|error| DelegateError::new(error.to_string()))?;
        if self.stage == GpuStage::Plan {
            return Ok(plan.to_string());
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

impl Delegate for Printer {
    fn name(&self) -> &str {
        self.delegate.name()
    }

    fn partitioning(&self) -> Partitioning {
        self.delegate.partitioning()
    }

    fn claim(&self, graph: &Graph, node: NodeId) -> Result<Claim, Refusal> {
        self.delegate.claim(graph, node)
    }

    fn prepare(&self, island: Island<'_>) -> Result<Box<dyn DelegateKernel>, DelegateError> {
        let printed = self.print(island)?;
        let _ = writeln!(self.text.lock().unwrap_or_else(|poisoned| poisoned.into_inner()), "{printed}");
        Ok(Box::new(Printed))
    }
}

/// Stands for an island that was written down: were it refused, so would be those after it.
struct Printed;

impl DelegateKernel for Printed {
    fn invoke(&mut self, _: &[TensorRef<'_>], _: &mut [TensorMut<'_>]) -> Result<(), DelegateError> {
        Err(DelegateError::new("what was only written down cannot run"))
    }
}
