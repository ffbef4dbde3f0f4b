//! Inputs and outputs in memory of a caller's own wgpu device, and commands in its encoders; and in memory of a device that
//! the delegate opened.

use std::any::Any;

use attache_gpu::{
    BoundTensor, BufferBinding, GpuError, GpuErrorKind, InputBinding, MemoryBinding, OutputBinding, PlanBuffer,
    TextureSource, TextureTarget, wgpu,
};
use attache_graph::Fact;

use super::exchange;
use super::failure::{failed, failure};
use super::kernel::{GpuKernel, Port};
use crate::{
    Commands, DelegateBindings, DelegateError, DelegateErrorKind, DelegateQueue, Error, ErrorKind, InputMemory,
    OutputMemory,
};

impl InputMemory for BufferBinding {}
impl OutputMemory for BufferBinding {}
impl InputMemory for MemoryBinding {}
impl OutputMemory for MemoryBinding {}
impl InputMemory for TextureSource {}
impl OutputMemory for TextureTarget {}
impl Commands for wgpu::CommandEncoder {}

impl DelegateBindings for GpuKernel {
    fn bind_input(&mut self, input: usize, tensor: &Fact, memory: Option<&dyn Any>) -> Result<(), DelegateError> {
        let binding = |memory: &dyn Any| match (memory.downcast_ref(), memory.downcast_ref(), memory.downcast_ref()) {
            (Some(buffer), _, _) => Ok(InputBinding::Buffer(BufferBinding::clone(buffer))),
            (_, Some(texture), _) => Ok(InputBinding::Texture(TextureSource::clone(texture))),
            (_, _, Some(range)) => Ok(InputBinding::Memory(MemoryBinding::same(range))),
            (None, None, None) => Err(unknown("memory")),
        };
        let binding = memory.map(binding).transpose()?;
        match self.inputs.get(input).filter(|port| port.format.elements > 0) {
            Some(port) => {
                let bound = binding.map(|binding| (binding, bound(port, tensor)));
                self.session.bind_input(input, bound).map_err(|error| refused("Bind", &error))
            }
            None => Ok(()),
        }
    }

    fn bind_output(&mut self, output: usize, tensor: &Fact, memory: Option<&dyn Any>) -> Result<(), DelegateError> {
        let binding = |memory: &dyn Any| match (memory.downcast_ref(), memory.downcast_ref(), memory.downcast_ref()) {
            (Some(buffer), _, _) => Ok(OutputBinding::Buffer(BufferBinding::clone(buffer))),
            (_, Some(texture), _) => Ok(OutputBinding::Texture(TextureTarget::clone(texture))),
            (_, _, Some(range)) => Ok(OutputBinding::Memory(MemoryBinding::same(range))),
            (None, None, None) => Err(unknown("memory")),
        };
        let binding = memory.map(binding).transpose()?;
        match self.outputs.get(output).filter(|port| port.format.elements > 0) {
            Some(port) => {
                let bound = binding.map(|binding| (binding, bound(port, tensor)));
                self.session.bind_output(output, bound).map_err(|error| refused("Bind", &error))
            }
            None => Ok(()),
        }
    }

    fn updates(&self) -> Vec<[usize; 2]> {
        self.session.plan().in_place.iter().map(|form| [form.input, form.output]).collect()
    }

    fn carry(&mut self, slot: usize, output: usize, input: usize) -> Result<bool, DelegateError> {
        let (Some(to), Some(from)) = (self.inputs.get(input), self.outputs.get(output)) else { return Ok(false) };
        let is_alike = to.format == from.format && to.data_type == from.data_type;
        // Then the memory has the bytes that the host reads and writes, in whole words.
        let is_plain = to.is_taken() && from.is_stored() && to.device_bytes().is_multiple_of(4);
        if self.carried.has(slot, output, input) {
            return Ok(true);
        }
        // An output that is an input in another shape is in no memory of its own.
        let is_made = matches!(self.session.plan().outputs[output].buffer, PlanBuffer::Bank(_));
        let is_free = !self.carried.is_taken(output, input);
        if to.format.elements == 0 || !is_alike || !is_plain || !is_made || !is_free {
            return Ok(false);
        }
        let (bytes, tensor) = (to.device_bytes(), stored(to));
        let memory = match self.session.memory(bytes) {
            Ok(Some(memory)) => memory,
            Ok(None) => return Ok(false),
            // The host has the memory that this needs.
            Err(error) if error.kind() == GpuErrorKind::OutOfMemory => return Ok(false),
            Err(error) => return Err(failed(error)),
        };
        let Some(value) = DelegateQueue::output(self, slot, output, bytes)? else { return Ok(false) };
        self.carried.write(&memory, value)?;
        let (from, to) = (MemoryBinding::new(&memory), MemoryBinding::new(&memory));
        self.session.bind_output(output, Some((OutputBinding::Memory(from), tensor.clone()))).map_err(failed)?;
        if let Err(error) = self.session.bind_input(input, Some((InputBinding::Memory(to), tensor))) {
            self.session.bind_output(output, None).map_err(failed)?;
            return Err(failed(error));
        }
        self.carried.set(output, input, memory);
        Ok(true)
    }

    fn end_carry(&mut self, input: usize, value: Option<&mut [u8]>) -> Result<(), DelegateError> {
        let nothing = || DelegateError::new("nothing was carried to the input").with_kind(DelegateErrorKind::Usage);
        let (output, memory) = self.carried.take(input).ok_or_else(nothing)?;
        let copied = value.map_or(Ok(()), |value| self.carried.read(&memory, value));
        let unbound = [self.session.bind_input(input, None), self.session.bind_output(output, None)];
        unbound.into_iter().collect::<Result<(), _>>().map_err(failed).and(copied)
    }

    fn encode(&mut self, commands: &mut dyn Any) -> Result<(), DelegateError> {
        let encoder = commands.downcast_mut::<wgpu::CommandEncoder>().ok_or_else(|| unknown("commands"))?;
        self.session.encode(encoder).map_err(|error| refused("Encode", &error))
    }
}

/// Returns an input or output of a partition as the device stores it.
fn stored(port: &Port) -> BoundTensor {
    BoundTensor {
        data_type: port.data_type,
        shape: [port.format.elements].into(),
        quantization: None,
        scalar: port.format.scalar,
        storage: port.format.storage,
    }
}

/// Returns an input or output of a partition as the engine binds it.
fn bound(port: &Port, tensor: &Fact) -> BoundTensor {
    let shape = match (&tensor.shape, exchange::parts(tensor.data_type)) {
        (Some(shape), (_, 1)) => shape.clone(),
        (Some(shape), (_, parts)) => shape.iter().copied().chain([parts]).collect(),
        (None, _) => [port.format.elements].into(),
    };
    BoundTensor {
        data_type: exchange::parts(tensor.data_type).0,
        shape,
        quantization: tensor.quantization.clone(),
        scalar: port.format.scalar,
        storage: port.format.storage,
    }
}

fn unknown(what: &str) -> DelegateError {
    DelegateError::new(format!("the {what} is of no type that it knows")).with_kind(DelegateErrorKind::Usage)
}

fn refused(phase: &str, error: &GpuError) -> DelegateError {
    match error.kind() {
        GpuErrorKind::Usage => DelegateError::new(error.to_string()).with_kind(DelegateErrorKind::Usage),
        _ => failure(phase, error),
    }
}

impl From<GpuError> for Error {
    /// Converts the error of memory or of a semaphore of a device.
    fn from(error: GpuError) -> Self {
        let kind = match error.kind() {
            GpuErrorKind::Usage => ErrorKind::Usage,
            GpuErrorKind::Unsupported => ErrorKind::Unsupported,
            GpuErrorKind::DeviceLost => ErrorKind::DeviceLost,
            GpuErrorKind::OutOfMemory => ErrorKind::OutOfMemory,
            _ => ErrorKind::Device,
        };
        Error::new(kind, error.to_string())
    }
}
