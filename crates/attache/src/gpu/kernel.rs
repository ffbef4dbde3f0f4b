//! An island on the GPU: bytes of tensors in, bytes of tensors out.

use attache_gpu::{Device, GpuError, GpuErrorKind, Precision, Session, Storage, Submission};
use attache_graph::{NodeId, TensorMut, TensorRef};

use super::delegate::Stitched;
use super::exchange;
use crate::{DelegateError, DelegateErrorKind, DelegateKernel, DispatchProfile, KernelProfile, KernelReport};

pub(super) struct GpuKernel {
    session: Session,
    nodes: Vec<NodeId>,
    profiled: bool,
    /// Outputs of a type that the device doesn't store, in the type that it does.
    wide: Vec<Vec<u8>>,
}

impl GpuKernel {
    pub(super) fn new(
        device: &Device,
        stitched: Stitched,
        precision: Precision,
        submission: Submission,
        profiled: bool,
    ) -> Result<Self, GpuError> {
        let prepare = if profiled { Session::timed } else { Session::new };
        let session = prepare(device, stitched.program, precision, submission)?;
        Ok(Self { session, nodes: stitched.nodes, profiled, wide: Vec::new() })
    }

    fn write(&mut self, inputs: &[TensorRef<'_>]) -> Result<(), DelegateError> {
        for (index, input) in inputs.iter().enumerate() {
            let program = &self.session.plan().program;
            let value = program.value(program.inputs[index]);
            if value.shape.elements() > 0 {
                let storage = self.session.plan().storages.of(program.inputs[index]);
                let words = exchange::to_device(input.data_type, value.scalar, storage, input.bytes);
                self.session.write(index, &words).map_err(failed)?;
            }
        }
        Ok(())
    }

    fn read(&mut self, outputs: &mut [TensorMut<'_>]) -> Result<(), DelegateError> {
        self.wide.resize(outputs.len(), Vec::new());
        let plan = self.session.plan();
        let storages: Vec<Storage> = plan.program.outputs.iter().map(|id| plan.storages.of(*id)).collect();
        let mut slices: Vec<&mut [u8]> = Vec::with_capacity(outputs.len());
        for ((output, wide), storage) in outputs.iter_mut().zip(&mut self.wide).zip(&storages) {
            slices.push(if exchange::is_stored(output.data_type, *storage) {
                &mut *output.bytes
            } else {
                let size = if matches!(storage, Storage::Bytes(_)) { 1 } else { 4 };
                wide.resize(output.shape.elements() * size, 0);
                wide
            });
        }
        self.session.read(&mut slices).map_err(failed)?;
        for ((output, wide), storage) in outputs.iter_mut().zip(&self.wide).zip(storages) {
            if !exchange::is_stored(output.data_type, storage) {
                exchange::from_device(output.data_type, storage, wide, output.bytes);
            }
        }
        Ok(())
    }
}

fn failed(error: GpuError) -> DelegateError {
    failure("Invoke", &error)
}

/// A device's failure as the delegate's.
pub(super) fn failure(moment: &str, error: &GpuError) -> DelegateError {
    let kind = match error.kind() {
        GpuErrorKind::OutOfMemory => DelegateErrorKind::OutOfMemory,
        GpuErrorKind::DeviceLost => DelegateErrorKind::DeviceLost,
        _ => DelegateErrorKind::Failed,
    };
    DelegateError::new(format!("TfLiteGpuDelegate {moment}: {error}")).with_kind(kind)
}

impl DelegateKernel for GpuKernel {
    fn invoke(&mut self, inputs: &[TensorRef<'_>], outputs: &mut [TensorMut<'_>]) -> Result<(), DelegateError> {
        self.write(inputs)?;
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
        self.write(inputs)?;
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

    fn profile(&mut self) -> Result<KernelProfile, DelegateError> {
        if !self.profiled {
            return Ok(KernelProfile::default());
        }
        let times = self.session.times().map_err(failed)?;
        let plan = self.session.plan();
        let work = self.session.work();
        let timed = plan.dispatches.iter().zip(&times.spans).zip(&work);
        let dispatches = timed.map(|((dispatch, span), work)| DispatchProfile {
            name: dispatch.shader.variant,
            nodes: plan.kernels[dispatch.kernel].origins.iter().map(|origin| self.nodes[*origin]).collect(),
            begin_ns: span.begin,
            end_ns: span.end,
            operations: work.operations,
            on_matrices: dispatch.shader.multiplies_matrices(),
            bytes_read: work.bytes_read,
            bytes_written: work.bytes_written,
        });
        Ok(KernelProfile { dispatches: dispatches.collect(), barriers: times.barriers })
    }
}
