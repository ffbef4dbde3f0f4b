//! Inputs and outputs that a GPU reads and writes in the memory of their tensors, so that runs copy nothing between that
//! memory and the interpreter's.

use std::collections::BTreeSet;

use crate::access::Access;
use crate::state::Subgraph;

#[cfg(feature = "gpu")]
pub(crate) use attache::gpu::Device;

/// There are no devices.
#[cfg(not(feature = "gpu"))]
#[derive(Clone, Debug)]
pub(crate) enum Device {}

/// The positions of the inputs and outputs of a subgraph that runs use where they are. Runs copy the others.
#[derive(Debug, Default)]
pub(crate) struct Bound {
    inputs: BTreeSet<usize>,
    /// All outputs, or none: an output could be the same value as one that is bound, which the host cannot read.
    outputs: BTreeSet<usize>,
}

impl Bound {
    /// Binds the inputs and outputs of a subgraph to the memory of their tensors, on the first of the devices that runs
    /// the whole subgraph and can use that memory. Where none does, nothing is bound.
    pub(crate) fn new(subgraph: &Subgraph, access: &mut Access<'_>, devices: &[Device]) -> Self {
        devices.iter().find_map(|device| Self::on(device, subgraph, access)).unwrap_or_default()
    }

    #[cfg(not(feature = "gpu"))]
    fn on(device: &Device, _: &Subgraph, _: &mut Access<'_>) -> Option<Self> {
        match *device {}
    }

    #[cfg(feature = "gpu")]
    fn on(device: &Device, subgraph: &Subgraph, access: &mut Access<'_>) -> Option<Self> {
        use attache::gpu::{DeviceMemory, MemoryBinding};
        let memory = |tensor: i32| {
            let pages = subgraph.storage.get(usize::try_from(tensor).ok()?)?.pages(device.host_alignment()?)?;
            Some(MemoryBinding::new(&DeviceMemory::of_host(device, pages).ok()?))
        };
        let mut bound = Self::default();
        for (position, tensor) in subgraph.outputs.iter().enumerate() {
            if memory(*tensor).and_then(|memory| access.bind_output(position, memory).ok()).is_none() {
                bound.release(access);
                return None;
            }
            bound.outputs.insert(position);
        }
        // A device with memory of its own gets inputs sooner from the CPU, which writes to that memory.
        let inputs = if device.has_unified_memory() { &subgraph.inputs[..] } else { &[] };
        for (position, tensor) in inputs.iter().enumerate() {
            if memory(*tensor).and_then(|memory| access.bind_input(position, memory).ok()).is_some() {
                bound.inputs.insert(position);
            }
        }
        Some(bound)
    }

    /// Whether runs read an input where it is.
    pub(crate) fn has_input(&self, position: usize) -> bool {
        self.inputs.contains(&position)
    }

    /// Whether runs write an output where it is.
    pub(crate) fn has_output(&self, position: usize) -> bool {
        self.outputs.contains(&position)
    }

    /// Has runs copy all inputs and outputs again. Fails for none: what is bound can be unbound.
    pub(crate) fn release(&mut self, access: &mut Access<'_>) {
        for position in std::mem::take(&mut self.inputs) {
            access.unbind_input(position);
        }
        for position in std::mem::take(&mut self.outputs) {
            access.unbind_output(position);
        }
    }
}

#[cfg(all(test, feature = "gpu"))]
pub(crate) mod tests {
    use std::sync::Arc;

    use attache::model::schema::BuiltinOperator;
    use attache::{DataType, GpuDelegate, GpuDelegateOptions, Model, ModelBuilder, OperatorBuilder, TensorBuilder};

    use crate::options::Configuration;
    use crate::state::{MAIN, State};

    /// The operator by its code in the schema: its name stays in its own file.
    const SUBTRACTION: BuiltinOperator = BuiltinOperator(41);

    /// `y = a - b`, of four elements.
    pub(crate) fn model() -> Model {
        model_of(DataType::Float32)
    }

    /// The same of numbers that no GPU computes with.
    pub(crate) fn wide_model() -> Model {
        model_of(DataType::Int64)
    }

    fn model_of(data_type: DataType) -> Model {
        let mut builder = ModelBuilder::new("test");
        let main = builder.subgraph("main");
        let ids = ["a", "b", "y"].map(|name| builder.tensor(main, TensorBuilder::new(name, data_type, [4])));
        builder.operator(main, OperatorBuilder::new(SUBTRACTION, [ids[0], ids[1]], [ids[2]]));
        builder.inputs(main, &ids[..2]).outputs(main, &[ids[2]]);
        Model::from_bytes(builder.finish()).unwrap()
    }

    pub(crate) fn on_gpu() -> Configuration {
        let gpu = GpuDelegate::new(GpuDelegateOptions::default().software(true)).unwrap();
        let devices = vec![gpu.device().clone()];
        Configuration { delegates: vec![Arc::new(gpu)], devices, ..Configuration::default() }
    }

    /// Writes `value` to all elements of a tensor where they are, as programs do.
    pub(crate) fn fill(state: &mut State, tensor: usize, value: f32) {
        let storage = state.subgraph_mut(MAIN).unwrap().storage.get_mut(tensor).unwrap();
        let bytes = storage.bytes_mut().unwrap();
        bytes.chunks_exact_mut(4).for_each(|element| element.copy_from_slice(&value.to_le_bytes()));
    }

    pub(crate) fn difference(state: &mut State) -> Vec<f32> {
        state.invoke(MAIN).unwrap();
        let bytes = state.subgraph(MAIN).unwrap().storage.get(2).unwrap().bytes().unwrap();
        bytes.chunks_exact(4).map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap())).collect()
    }

    fn is_bound(state: &State) -> [bool; 3] {
        let bound = &state.subgraph(MAIN).unwrap().bound;
        [bound.has_input(0), bound.has_input(1), bound.has_output(0)]
    }

    #[test]
    fn runs_use_tensors_where_they_are() {
        let mut state = State::new(&model(), on_gpu(), 1).unwrap();
        state.allocate(MAIN).unwrap();
        assert_eq!(is_bound(&state), [true; 3]);
        let address = state.address(MAIN, 2).unwrap();
        for value in [1.0, 2.5] {
            fill(&mut state, 0, value);
            fill(&mut state, 1, 1.0);
            assert_eq!(difference(&mut state), [value - 1.0; 4]);
        }
        assert_eq!(state.address(MAIN, 2).unwrap(), address);
        state.resize(MAIN, 0, &[2, 4]).unwrap();
        state.allocate(MAIN).unwrap();
        assert_eq!(is_bound(&state), [true; 3]);
        fill(&mut state, 0, 3.0);
        assert_eq!(difference(&mut state), [2.0; 8]);
    }

    #[test]
    fn memory_of_the_program_is_copied_from_then_on() {
        let mut state = State::new(&model(), on_gpu(), 1).unwrap();
        state.allocate(MAIN).unwrap();
        fill(&mut state, 1, 1.0);
        let mut own = [5.0_f32; 4];
        state.set_custom(MAIN, 0, own.as_mut_ptr().cast(), 16).unwrap();
        assert_eq!(is_bound(&state), [false; 3]);
        assert_eq!(difference(&mut state), [4.0; 4]);
        state.allocate(MAIN).unwrap();
        fill(&mut state, 0, 7.0);
        assert_eq!((difference(&mut state), own), (vec![6.0; 4], [7.0; 4]));
    }

    #[test]
    fn a_delegate_that_is_added_later_takes_the_values_of_inputs() {
        let mut state = State::new(&model(), Configuration::default(), 1).unwrap();
        state.allocate(MAIN).unwrap();
        assert_eq!(is_bound(&state), [false; 3]);
        fill(&mut state, 0, 1.0);
        fill(&mut state, 1, 2.0);
        state.rebuild(on_gpu()).unwrap();
        assert_eq!(is_bound(&state), [true; 3]);
        assert_eq!(difference(&mut state), [-1.0; 4]);
    }

    #[test]
    fn what_the_cpu_may_take_over_is_copied() {
        let configuration = Configuration { falls_back: true, ..on_gpu() };
        let mut state = State::new(&model(), configuration, 1).unwrap();
        state.allocate(MAIN).unwrap();
        assert_eq!(is_bound(&state), [false; 3]);
        fill(&mut state, 0, 1.0);
        assert_eq!(difference(&mut state), [1.0; 4]);
    }
}
