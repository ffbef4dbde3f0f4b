//! Tests of inputs and outputs that are bound to memory of a delegate, which uses only the public interface.

use std::any::Any;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use attache::graph::{Fact, TensorMut, TensorRef, Unsupported};
use attache::{
    Claim, Commands, Completion, Delegate, DelegateBindings, DelegateError, DelegateErrorKind, DelegateKernel,
    DelegateQueue, Error, ErrorKind, InputMemory, Interpreter, NodeContext, OutputMemory, Partition, PreparedPartition,
};

use crate::common::Net;

/// Memory that this delegate knows.
#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<f32>>>);

impl InputMemory for Shared {}
impl OutputMemory for Shared {}

/// Memory that it does not know.
struct Strange;

impl InputMemory for Strange {}

/// The sizes of the runs that were added.
struct Runs(Vec<usize>);

impl Commands for Runs {}

/// Claims RELU. `binds` is whether its kernels bind memory.
struct Relu {
    binds: bool,
}

impl Delegate for Relu {
    fn name(&self) -> &str {
        "Relu"
    }

    fn claim(&self, node: NodeContext<'_>) -> Result<Claim, Unsupported> {
        match node.node().op.name() {
            "RELU" => Ok(Claim::new(())),
            _ => Err(Unsupported::new("it is no RELU")),
        }
    }

    fn prepare(&self, _: Partition<'_>) -> Result<Box<dyn PreparedPartition>, DelegateError> {
        let binds = self.binds;
        Ok(Box::new(move || -> Result<Box<dyn DelegateKernel>, DelegateError> {
            Ok(Box::new(Kernel { binds, ..Kernel::default() }))
        }))
    }
}

/// A kernel with one slot.
#[derive(Default)]
struct Kernel {
    binds: bool,
    input: Vec<f32>,
    output: Vec<f32>,
    bound: [Option<Shared>; 2],
}

impl Kernel {
    fn bind(&mut self, side: usize, tensor: &Fact, memory: Option<&dyn Any>) -> Result<(), DelegateError> {
        let refused = |reason| DelegateError::new(reason).with_kind(DelegateErrorKind::Usage);
        let known = |memory: &dyn Any| memory.downcast_ref::<Shared>().cloned().ok_or_else(|| refused("what is this?"));
        let memory = memory.map(known).transpose()?;
        let elements = tensor.shape.as_ref().unwrap().elements();
        if memory.as_ref().is_some_and(|memory| memory.0.lock().unwrap().len() != elements) {
            return Err(refused("it is of another size"));
        }
        self.bound[side] = memory;
        Ok(())
    }

    fn run(&mut self) {
        let input =
            self.bound[0].as_ref().map_or_else(|| self.input.clone(), |memory| memory.0.lock().unwrap().clone());
        let output: Vec<f32> = input.iter().map(|x| x.max(0.0)).collect();
        match &self.bound[1] {
            Some(memory) => *memory.0.lock().unwrap() = output,
            None => self.output = output,
        }
    }
}

impl DelegateKernel for Kernel {
    fn invoke(&mut self, _: &[TensorRef<'_>], _: &mut [TensorMut<'_>]) -> Result<(), DelegateError> {
        Err(DelegateError::new("the queue is used"))
    }

    fn queue(&self) -> Option<&dyn DelegateQueue> {
        Some(self)
    }

    fn queue_mut(&mut self) -> Option<&mut dyn DelegateQueue> {
        Some(self)
    }

    fn bindings(&mut self) -> Option<&mut dyn DelegateBindings> {
        self.binds.then_some(self)
    }
}

struct Ended;

impl Completion for Ended {
    fn wait(&self, _: Duration) -> Result<bool, DelegateError> {
        Ok(true)
    }
}

impl DelegateQueue for Kernel {
    fn slots(&self) -> usize {
        1
    }

    fn write(&mut self, _: usize, _: usize, bytes: &[u8]) -> Result<(), DelegateError> {
        assert!(self.bound[0].is_none(), "the interpreter writes no input that is bound");
        self.input = bytes.as_chunks::<4>().0.iter().map(|word| f32::from_le_bytes(*word)).collect();
        Ok(())
    }

    fn submit(&mut self, _: usize, _: usize) -> Result<(), DelegateError> {
        self.run();
        Ok(())
    }

    fn wait(&mut self, _: usize) -> Result<(), DelegateError> {
        Ok(())
    }

    fn completion(&self, _: usize) -> Arc<dyn Completion> {
        Arc::new(Ended)
    }

    fn output(&self, _: usize, _: usize, _: usize) -> Result<Option<&[u8]>, DelegateError> {
        Ok(self.bound[1].is_none().then(|| bytemuck::cast_slice(&self.output)))
    }
}

impl DelegateBindings for Kernel {
    fn bind_input(&mut self, _: usize, tensor: &Fact, memory: Option<&dyn Any>) -> Result<(), DelegateError> {
        self.bind(0, tensor, memory)
    }

    fn bind_output(&mut self, _: usize, tensor: &Fact, memory: Option<&dyn Any>) -> Result<(), DelegateError> {
        self.bind(1, tensor, memory)
    }

    fn encode(&mut self, commands: &mut dyn Any) -> Result<(), DelegateError> {
        self.run();
        let size = self.bound[0].as_ref().map_or(0, |memory| memory.0.lock().unwrap().len());
        commands.downcast_mut::<Runs>().ok_or_else(|| DelegateError::new("what are these?"))?.0.push(size);
        Ok(())
    }
}

fn interpreter(binds: bool) -> Interpreter {
    let mut net = Net::new();
    let x = net.tensor("x", &[3]);
    let y = net.relu(x, &[3]);
    Interpreter::builder(&net.finish(&[x], &[y])).threads(1).delegate(Relu { binds }).build().unwrap()
}

fn shared(values: &[f32]) -> Shared {
    Shared(Arc::new(Mutex::new(values.to_vec())))
}

fn refused(result: Result<(), Error>, kind: ErrorKind, part: &str) {
    let error = result.unwrap_err();
    assert!(error.kind() == kind && error.to_string().contains(part), "{error:?}");
}

#[test]
fn delegates_bind_memory_of_their_own() {
    let mut interpreter = interpreter(true);
    interpreter.write(0, &[-1.0f32, 2.0, -3.0]).unwrap();
    let (input, output) = (shared(&[4.0, -5.0, 6.0]), shared(&[0.0; 3]));
    interpreter.bind_input("x", input.clone()).unwrap();
    interpreter.invoke().unwrap();
    assert_eq!(interpreter.read::<f32>(0).unwrap(), [4.0, 0.0, 6.0]);
    interpreter.bind_output(0, output.clone()).unwrap();
    refused(interpreter.read::<f32>(0).map(|_| ()), ErrorKind::Usage, "is bound");
    *input.0.lock().unwrap() = vec![-7.0, 8.0, 9.0];
    let mut runs = Runs(Vec::new());
    interpreter.encode(&mut runs).unwrap();
    assert_eq!((&*output.0.lock().unwrap(), runs.0), (&vec![0.0, 8.0, 9.0], vec![3]));
    interpreter.unbind_input(0).unwrap();
    interpreter.unbind_output(0).unwrap();
    interpreter.invoke().unwrap();
    assert_eq!(interpreter.read::<f32>(0).unwrap(), [0.0, 2.0, 0.0]);
}

#[test]
fn delegates_refuse_memory() {
    let mut knows = interpreter(true);
    refused(knows.bind_input(0, Strange), ErrorKind::Usage, "Relu delegate: input 0 (\"x\"): what is this?");
    refused(knows.bind_output(0, shared(&[0.0; 2])), ErrorKind::Usage, "another size");
    refused(knows.bind_input(1, shared(&[0.0; 3])), ErrorKind::Usage, "no input 1");
    refused(knows.encode(&mut Runs(Vec::new())), ErrorKind::Usage, "is not bound");
    let mut ignores = interpreter(false);
    refused(ignores.bind_input(0, shared(&[0.0; 3])), ErrorKind::Usage, "binds no memory");
    ignores.invoke().unwrap();
}
