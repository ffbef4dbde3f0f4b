//! Inputs and outputs that stay in the memory of a device, where programs allow it (`TfLiteSetAllowBufferHandleOutput`). Copies
//! from and to buffers of the program then go there directly, and the bytes of the tensor itself are stale until somebody asks
//! for them.

use attache::{Outcome, Placement};

use crate::access::Access;
use crate::fault::Fault;
use crate::state::{State, Subgraph};
use crate::storage::Storage;

/// Whether one partition of a delegate is the whole graph.
fn is_whole(placement: &Placement) -> bool {
    let is_elsewhere = |outcome: &Outcome| !matches!(outcome, Outcome::Cpu);
    placement.partitions == 1 && placement.nodes.iter().all(|node| is_elsewhere(&node.outcome))
}

impl Subgraph {
    /// Whether a tensor may stay on the device: an input or an output and nothing else, in memory of the interpreter's, of a fixed size.
    fn may_stay(&self, tensor: usize) -> bool {
        let uses = self.inputs.iter().chain(&self.outputs).filter(|index| **index as usize == tensor).count();
        let is_own = matches!(self.storage.get(tensor), Some(Storage::Own(_)));
        self.stays && uses == 1 && is_own && self.tensors.may_move(tensor) && !self.is_dynamic(tensor)
    }

    /// Decides whether inputs and outputs stay on the device that runs the whole subgraph.
    pub(crate) fn decide_to_stay(&mut self, is_allowed: bool, access: &Access<'_>) {
        self.stays = is_allowed && is_whole(access.placement());
    }

    /// Copies bytes to an input on the device. Returns false if it does not stay there.
    pub(crate) fn copy_to_device(
        &mut self,
        tensor: usize,
        bytes: &[u8],
        access: &mut Access<'_>,
    ) -> Result<bool, Fault> {
        let position = self.inputs.iter().position(|index| *index as usize == tensor);
        let Some(position) = position.filter(|_| self.may_stay(tensor)) else { return Ok(false) };
        let is_written = access.write(position, bytes)?;
        if is_written {
            self.tensors.note_on_device(tensor);
        }
        Ok(is_written)
    }

    /// Copies a tensor whose bytes are stale from the device. Returns false if they are not.
    pub(crate) fn copy_from_device(
        &self,
        tensor: usize,
        bytes: &mut [u8],
        access: &mut Access<'_>,
    ) -> Result<bool, Fault> {
        if !self.tensors.is_on_device(tensor) {
            return Ok(false);
        }
        let place = |list: &[i32]| list.iter().position(|index| *index as usize == tensor);
        match (place(&self.outputs), place(&self.inputs)) {
            (Some(position), _) => access.read(position, bytes),
            (None, Some(position)) => access.read_input(position, bytes).map(|()| true),
            (None, None) => Ok(false),
        }
    }

    /// Leaves an output of a run on the device. Returns false if it does not stay there.
    pub(crate) fn leave(&mut self, position: usize) -> bool {
        let tensor = self.outputs[position] as usize;
        let stays = self.may_stay(tensor);
        if stays {
            self.tensors.note_on_device(tensor);
        }
        stays
    }

    /// Brings the bytes of a tensor that are on the device to its memory.
    pub(crate) fn settle(&mut self, tensor: usize, access: &mut Access<'_>) -> Result<(), Fault> {
        if !self.tensors.is_on_device(tensor) {
            return Ok(());
        }
        let Some(mut storage) = self.storage.take(tensor) else { return Ok(()) };
        let size = self.tensors.bytes(tensor);
        let read = match storage.bytes_mut().and_then(|bytes| bytes.get_mut(..size)) {
            Some(bytes) => self.copy_from_device(tensor, bytes, access).map(drop),
            None => Ok(()),
        };
        *self.storage.require(tensor) = storage;
        read?;
        self.tensors.note_fresh(tensor);
        Ok(())
    }
}

impl State {
    /// Brings the bytes of a tensor to its memory, if they are on a device.
    pub(crate) fn settle(&mut self, subgraph: usize, tensor: usize) -> Result<(), Fault> {
        if !self.subgraph(subgraph)?.tensors.is_on_device(tensor) {
            return Ok(());
        }
        let (found, mut access) = self.ready(subgraph)?;
        found.settle(tensor, &mut access)
    }

    /// Brings the bytes of all tensors of a subgraph to their memory.
    pub(crate) fn settle_all(&mut self, subgraph: usize) -> Result<(), Fault> {
        let found = self.subgraph(subgraph)?;
        let tensors = found.inputs.iter().chain(&found.outputs).map(|tensor| *tensor as usize);
        let stale: Vec<usize> = tensors.filter(|tensor| found.tensors.is_on_device(*tensor)).collect();
        stale.into_iter().try_for_each(|tensor| self.settle(subgraph, tensor))
    }

    /// Allows inputs and outputs to stay on devices, or not.
    pub(crate) fn allow_to_stay(&mut self, is_allowed: bool) -> Result<(), Fault> {
        let subgraphs: Vec<usize> = self.subgraph_indices().collect();
        for subgraph in &subgraphs {
            self.settle_all(*subgraph)?;
        }
        self.may_stay = is_allowed;
        self.bind_all();
        Ok(())
    }
}

#[cfg(all(test, feature = "gpu"))]
mod tests {
    use crate::bound::tests::{model, on_gpu};
    use crate::options::Configuration;
    use crate::state::{MAIN, State};

    fn bytes(values: [f32; 4]) -> Vec<u8> {
        values.iter().flat_map(|value| value.to_le_bytes()).collect()
    }

    /// Returns which of the two inputs and the output are on the device.
    fn on_device(state: &State) -> [bool; 3] {
        [0, 1, 2].map(|tensor| state.subgraph(MAIN).unwrap().tensors.is_on_device(tensor))
    }

    fn in_memory(state: &State, tensor: usize) -> &[u8] {
        state.subgraph(MAIN).unwrap().storage.get(tensor).unwrap().bytes().unwrap()
    }

    #[test]
    fn copies_go_to_and_from_the_device_and_addresses_bring_bytes_back() {
        let mut state = State::new(&model(), on_gpu(), 1).unwrap();
        state.allow_to_stay(true).unwrap();
        state.allocate(MAIN).unwrap();
        let mut result = [0; 16];
        for value in [5.0_f32, 6.5] {
            state.copy_from(MAIN, 0, &bytes([value; 4])).unwrap();
            state.copy_from(MAIN, 1, &bytes([1.0; 4])).unwrap();
            state.invoke(MAIN).unwrap();
            assert_eq!(on_device(&state), [true; 3]);
            state.copy_to(MAIN, 2, &mut result).unwrap();
            assert_eq!(result[..], bytes([value - 1.0; 4]));
            state.copy_to(MAIN, 0, &mut result).unwrap();
            assert_eq!(result[..], bytes([value; 4]));
        }
        assert_eq!(in_memory(&state, 2), bytes([0.0; 4]), "nobody has asked for the bytes");
        state.address(MAIN, 2).unwrap();
        assert_eq!(in_memory(&state, 2), bytes([5.5; 4]));
        state.address(MAIN, 0).unwrap();
        assert_eq!((in_memory(&state, 0), on_device(&state)), (&bytes([6.5; 4])[..], [false, true, false]));

        // What the program then writes in memory counts.
        let storage = state.subgraph_mut(MAIN).unwrap().storage.get_mut(0).unwrap();
        storage.bytes_mut().unwrap().copy_from_slice(&bytes([3.0; 4]));
        state.invoke(MAIN).unwrap();
        state.copy_to(MAIN, 2, &mut result).unwrap();
        assert_eq!(result[..], bytes([2.0; 4]));
    }

    #[test]
    fn nothing_is_lost_when_tensors_move_or_may_not_stay_any_more() {
        let mut state = State::new(&model(), on_gpu(), 1).unwrap();
        state.allow_to_stay(true).unwrap();
        state.allocate(MAIN).unwrap();
        state.copy_from(MAIN, 0, &bytes([4.0; 4])).unwrap();
        state.copy_from(MAIN, 1, &bytes([1.0; 4])).unwrap();
        state.invoke(MAIN).unwrap();
        state.allow_to_stay(false).unwrap();
        assert_eq!((in_memory(&state, 2), on_device(&state)), (&bytes([3.0; 4])[..], [false; 3]));
        state.allow_to_stay(true).unwrap();
        state.copy_from(MAIN, 1, &bytes([2.0; 4])).unwrap();
        let mut own = [0.0_f32; 4];
        state.set_custom(MAIN, 2, own.as_mut_ptr().cast(), 16).unwrap();
        state.invoke(MAIN).unwrap();
        assert_eq!((own, on_device(&state)[2]), ([2.0; 4], false));
        state.copy_from(MAIN, 1, &bytes([3.0; 4])).unwrap();
        state.rebuild(Configuration::default()).unwrap();
        state.invoke(MAIN).unwrap();
        assert_eq!((own, on_device(&state)), ([1.0; 4], [false; 3]));
    }

    #[test]
    fn the_cpu_leaves_tensors_in_memory() {
        let mut state = State::new(&model(), Configuration::default(), 1).unwrap();
        state.allow_to_stay(true).unwrap();
        state.allocate(MAIN).unwrap();
        state.copy_from(MAIN, 0, &bytes([4.0; 4])).unwrap();
        state.invoke(MAIN).unwrap();
        assert_eq!((in_memory(&state, 2), on_device(&state)), (&bytes([4.0; 4])[..], [false; 3]));
    }
}
