#![allow(unsafe_code)]
//! The content of tensors of strings, as `attache::Strings` has it. Its size changes from run to run, so such tensors are
//! allocated alone, with `malloc`: programs replace what is in inputs (`DynamicBuffer`, `TfLiteTensorRealloc`,
//! `TfLiteOpaqueTensorWriteStrings`), and runs what is in outputs.

use std::slice;

use attache::{DataType, Strings, strings};
use attache_abi::{TfLiteAllocationType, TfLiteTensor};

use crate::access::Access;
use crate::fault::Fault;
use crate::state::{State, Subgraph};
use crate::tensors::Tensors;

/// Whether the interpreter or the program sets the content of a tensor of this type: it is neither of another type nor a
/// constant.
pub(crate) fn is_allocated_alone(tensor: &TfLiteTensor, data_type: DataType) -> bool {
    data_type == DataType::String && tensor.allocation_type == TfLiteAllocationType::DYNAMIC
}

impl Tensors {
    /// Whether a tensor holds strings that are not constant.
    pub(crate) fn has_strings(&self, index: usize) -> bool {
        // SAFETY: `at` returns null or the address of a tensor of the list.
        let tensor = unsafe { self.at(index).as_ref() };
        tensor.is_some_and(|tensor| is_allocated_alone(tensor, self.data_type(index)))
    }

    /// Returns the content of a tensor of strings; `None` if it has none.
    fn strings(&self, index: usize) -> Option<&[u8]> {
        // SAFETY: `at` returns null or the address of a tensor of the list.
        let tensor = unsafe { self.at(index).as_ref() }.filter(|tensor| !tensor.data.is_null())?;
        // SAFETY: a tensor that is allocated alone has as many bytes at `data`, which programs do not change during a call.
        self.has_strings(index).then(|| unsafe { slice::from_raw_parts(tensor.data.cast(), tensor.bytes) })
    }

    /// Replaces the content of a tensor of strings.
    fn set_strings(&mut self, index: usize, content: &[u8]) -> Result<(), Fault> {
        let tensor = self.tensor(index);
        // SAFETY: the content of such a tensor is of `malloc`, or null.
        let data = unsafe { libc::realloc(tensor.data, content.len().max(1)) };
        if data.is_null() {
            return Err(Fault::new(format!("there is no memory for {} bytes of strings", content.len())));
        }
        (tensor.data, tensor.bytes) = (data, content.len());
        // SAFETY: the memory was just allocated with this size.
        unsafe { std::ptr::copy_nonoverlapping(content.as_ptr(), data.cast(), content.len()) };
        Ok(())
    }

    /// Copies content that a program passes into a tensor of strings.
    pub(crate) fn copy_from_strings(&mut self, index: usize, content: &[u8]) -> Result<(), Fault> {
        let elements = self.shape(index).iter().product();
        let wrong = |error| Fault::new(format!("the bytes are not those of a tensor of {elements} strings: {error}"));
        Strings::new(content, elements).map_err(wrong)?;
        self.set_strings(index, content)
    }

    /// Copies the content of a tensor of strings into `bytes`, which are as many.
    pub(crate) fn copy_to_strings(&self, index: usize, bytes: &mut [u8]) -> Result<(), Fault> {
        let content = self.strings(index).ok_or_else(|| Fault::new("the tensor has no strings yet"))?;
        bytes.copy_from_slice(content);
        Ok(())
    }
}

impl Subgraph {
    /// Copies an input of strings to the interpreter: empty ones where the program gave none.
    pub(crate) fn write_strings(&self, position: usize, access: &mut Access<'_>) -> Result<(), Fault> {
        let tensor = self.inputs[position] as usize;
        match self.tensors.strings(tensor) {
            Some(content) => access.write(position, content)?,
            None => {
                let elements: usize = self.tensors.shape(tensor).iter().product();
                let empty = strings::encoded(std::iter::repeat_n(&[][..], elements)).unwrap_or_default();
                access.write(position, &empty)?
            }
        };
        Ok(())
    }

    /// Copies an output of strings, and its shape, from the interpreter.
    pub(crate) fn read_strings(&mut self, position: usize, access: &Access<'_>) -> Result<(), Fault> {
        let tensor = self.outputs[position] as usize;
        access.output_shape(position, |shape| self.tensors.set_shape(tensor, shape))?;
        match access.bytes(position)? {
            Some(content) => self.tensors.set_strings(tensor, content),
            None => Ok(()),
        }
    }

    /// Copies strings that the interpreter kept of an intermediate tensor.
    pub(crate) fn keep_strings(&mut self, tensor: usize, content: &[u8]) -> Result<(), Fault> {
        self.tensors.set_strings(tensor, content)
    }
}

impl State {
    /// Allocates tensors again where the program gave inputs of strings other shapes together with their content, as
    /// `DynamicBuffer::WriteToTensor` does. TensorFlow Lite's operators read the shapes of strings at a run.
    pub(crate) fn follow_strings(&mut self, subgraph: usize) -> Result<(), Fault> {
        let (found, access) = self.ready(subgraph)?;
        let mut changed = Vec::new();
        for (position, tensor) in found.inputs.iter().enumerate() {
            if !found.tensors.has_strings(*tensor as usize) {
                continue;
            }
            let shape = found.tensors.shape(*tensor as usize);
            access.input_shape(position, |known| {
                changed.extend((known != shape).then(|| (position, shape.clone())));
                Ok(())
            })?;
        }
        if changed.is_empty() {
            return Ok(());
        }
        let found = self.subgraph_mut(subgraph)?;
        found.set_shapes(changed);
        self.allocate(subgraph)
    }
}
