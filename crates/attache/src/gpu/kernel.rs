//! An island on the GPU: bytes of tensors in, bytes of tensors out.

use std::borrow::Cow;

use attache_base::DataType;
use attache_gpu::{Device, GpuError, Precision, Session, Submission};
use attache_graph::{NodeId, TensorMut, TensorRef};

use super::delegate::Stitched;
use crate::{DelegateError, DelegateKernel, KernelReport};

pub(super) struct GpuKernel {
    session: Session,
    nodes: Vec<NodeId>,
    /// Outputs of a type that the device doesn't store, in the type that it does.
    wide: Vec<Vec<u8>>,
}

impl GpuKernel {
    pub(super) fn new(
        device: &Device,
        stitched: Stitched,
        precision: Precision,
        submission: Submission,
    ) -> Result<Self, GpuError> {
        let session = Session::new(device, stitched.program, precision, submission)?;
        Ok(Self { session, nodes: stitched.nodes, wide: Vec::new() })
    }

    fn write(&mut self, inputs: &[TensorRef<'_>]) {
        for (index, input) in inputs.iter().enumerate() {
            let program = &self.session.plan().program;
            if program.shape(program.inputs[index]).elements() > 0 {
                self.session.write(index, &widened(input));
            }
        }
    }

    fn read(&mut self, outputs: &mut [TensorMut<'_>]) -> Result<(), DelegateError> {
        self.wide.resize(outputs.len(), Vec::new());
        let mut slices: Vec<&mut [u8]> = Vec::with_capacity(outputs.len());
        for (output, wide) in outputs.iter_mut().zip(&mut self.wide) {
            slices.push(match output.data_type {
                DataType::Float16 => {
                    wide.resize(output.bytes.len() * 2, 0);
                    wide
                }
                _ => &mut *output.bytes,
            });
        }
        self.session.read(&mut slices).map_err(failed)?;
        for (output, wide) in
            outputs.iter_mut().zip(&self.wide).filter(|(output, _)| output.data_type == DataType::Float16)
        {
            let numbers: Vec<f32> = bytemuck::pod_collect_to_vec(wide);
            let halves = numbers.iter().map(|number| half::f16::from_f32(*number).to_le_bytes());
            output.bytes.chunks_exact_mut(2).zip(halves).for_each(|(to, from)| to.copy_from_slice(&from));
        }
        Ok(())
    }
}

fn failed(error: GpuError) -> DelegateError {
    DelegateError::new(error.to_string())
}

/// A tensor's elements in a type that the device reads.
fn widened<'a>(tensor: &TensorRef<'a>) -> Cow<'a, [u8]> {
    match tensor.data_type {
        DataType::Float16 => {
            let halves = tensor.bytes.chunks_exact(2).map(|half| half::f16::from_le_bytes([half[0], half[1]]));
            halves.flat_map(|half| half.to_f32().to_le_bytes()).collect::<Vec<_>>().into()
        }
        _ => Cow::Borrowed(tensor.bytes),
    }
}

impl DelegateKernel for GpuKernel {
    fn invoke(&mut self, inputs: &[TensorRef<'_>], outputs: &mut [TensorMut<'_>]) -> Result<(), DelegateError> {
        self.write(inputs);
        self.session.submit().map_err(failed)?;
        self.read(outputs)
    }

    fn invoke_repeatedly(
        &mut self,
        times: usize,
        inputs: &[TensorRef<'_>],
        outputs: &mut [TensorMut<'_>],
    ) -> Result<(), DelegateError> {
        if times == 0 {
            return Ok(());
        }
        self.write(inputs);
        (0..times).try_for_each(|_| self.session.submit()).map_err(failed)?;
        self.read(outputs)
    }

    fn report(&self) -> KernelReport {
        let report = self.session.report();
        let name = |origin: &usize| self.nodes[*origin].0.to_string();
        let merged = self.session.plan().merged().into_iter().map(|(origin, others)| {
            let others: Vec<String> = others.iter().map(name).collect();
            (self.nodes[origin], format!("one kernel with node {}", others.join(", ")))
        });
        KernelReport {
            dispatches: report.dispatches,
            arena_bytes: report.arena_bytes,
            arena_lower_bound_bytes: report.arena_lower_bound_bytes,
            weights_bytes: report.weights_bytes,
            compile_ms: report.compile_ms,
            upload_ms: report.upload_ms,
            merged: merged.collect(),
        }
    }
}
