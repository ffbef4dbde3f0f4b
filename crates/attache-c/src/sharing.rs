//! Inputs and outputs in the memory in which the CPU runs the subgraph, so that runs copy nothing.

use std::collections::BTreeSet;

use attache_abi::TfLiteAllocationType;

use crate::access::Access;
use crate::fault::Fault;
use crate::state::Subgraph;

impl Subgraph {
    /// Has inputs and outputs use the memory that runs use, where their addresses stay: then nothing is copied.
    pub(crate) fn share_memory(&mut self, access: &mut Access<'_>) {
        let (mut seen, mut taken) = (BTreeSet::new(), BTreeSet::new());
        let inputs = self.inputs.iter().enumerate().map(|(position, tensor)| (*tensor as usize, Some(position), None));
        let outputs =
            self.outputs.iter().enumerate().map(|(position, tensor)| (*tensor as usize, None, Some(position)));
        for (tensor, input, output) in inputs.chain(outputs) {
            let Some(storage) = self.storage.get_mut(tensor).filter(|_| seen.insert(tensor)) else { continue };
            let memory = access.memory(input, output);
            let fits = |memory: &&mut [u8]| memory.len() == self.tensors.bytes(tensor);
            let memory = memory.filter(fits).filter(|_| !self.variables.contains(&tensor));
            // Programs may write to outputs too, so that no other tensor may have the same bytes.
            storage.share(memory.filter(|memory| taken.insert(memory.as_ptr().addr())));
            if storage.is_shared() {
                self.tensors.set_data(tensor, storage.address(), TfLiteAllocationType::ARENA_RW);
            }
        }
    }

    /// Copies what runs use where it is to memory of the tensors' own, before the interpreter or its memory goes.
    pub(crate) fn detach(&mut self) -> Result<(), Fault> {
        for (tensor, storage) in self.storage.iter_mut().filter(|(_, storage)| storage.is_shared()) {
            storage.detach()?;
            let is_allocated = storage.has(self.tensors.bytes(tensor));
            let address = if is_allocated { storage.address() } else { std::ptr::null_mut() };
            self.tensors.set_data(tensor, address, TfLiteAllocationType::ARENA_RW);
        }
        Ok(())
    }
}

#[cfg(all(test, feature = "gpu"))]
mod tests {
    use crate::bound::tests::{difference, fill, model, on_gpu, wide_model};
    use crate::options::Configuration;
    use crate::state::{MAIN, State};

    fn is_shared(state: &State) -> [bool; 3] {
        [0, 1, 2].map(|tensor| state.subgraph(MAIN).unwrap().storage.get(tensor).unwrap().is_shared())
    }

    fn addresses(state: &mut State) -> [*mut u8; 3] {
        [0, 1, 2].map(|tensor| state.address(MAIN, tensor).unwrap())
    }

    #[test]
    fn runs_on_the_cpu_use_tensors_where_they_are() {
        let mut state = State::new(&model(), Configuration::default(), 1).unwrap();
        state.allocate(MAIN).unwrap();
        assert_eq!(is_shared(&state), [true; 3]);
        let before = addresses(&mut state);
        fill(&mut state, 1, 1.0);
        for value in [5.0, 6.5] {
            fill(&mut state, 0, value);
            assert_eq!(difference(&mut state), [value - 1.0; 4]);
            assert_eq!(difference(&mut state), [value - 1.0; 4], "inputs stay from run to run");
        }
        assert_eq!(addresses(&mut state), before);

        state.resize(MAIN, 0, &[2, 4]).unwrap();
        state.allocate(MAIN).unwrap();
        assert_eq!(is_shared(&state), [true; 3]);
        fill(&mut state, 0, 3.0);
        assert_eq!(difference(&mut state), [2.0; 8], "the other input has kept its value");
    }

    #[test]
    fn values_and_addresses_outlive_what_tensors_are_resized_to() {
        let mut state = State::new(&model(), Configuration::default(), 1).unwrap();
        state.allocate(MAIN).unwrap();
        fill(&mut state, 0, 4.0);
        fill(&mut state, 1, 1.0);
        state.resize(MAIN, 0, &[1, 4]).unwrap();
        state.allocate(MAIN).unwrap();
        assert_eq!((is_shared(&state), difference(&mut state)), ([true; 3], vec![3.0; 4]), "as many bytes");

        let mut own = [0.0_f32; 4];
        state.set_custom(MAIN, 2, own.as_mut_ptr().cast(), 16).unwrap();
        state.resize(MAIN, 0, &[2, 4]).unwrap();
        assert!(state.allocate(MAIN).is_err(), "an output of 32 bytes");
        let [_, other, _] = addresses(&mut state);
        assert_eq!(state.subgraph(MAIN).unwrap().storage.get(1).unwrap().bytes().unwrap().as_ptr(), other);
        state.resize(MAIN, 0, &[4]).unwrap();
        state.allocate(MAIN).unwrap();
        fill(&mut state, 0, 7.0);
        state.invoke(MAIN).unwrap();
        assert_eq!(own, [6.0; 4]);
    }

    #[test]
    fn what_goes_when_the_cpu_takes_over_is_copied() {
        for falls_back in [false, true] {
            let configuration = Configuration { falls_back, ..on_gpu() };
            let mut state = State::new(&wide_model(), configuration, 1).unwrap();
            state.allocate(MAIN).unwrap();
            assert_eq!(is_shared(&state), [!falls_back; 3], "the CPU runs all, with a delegate beside it");
        }
    }

    #[test]
    fn memory_that_goes_with_its_interpreter_is_kept() {
        let mut state = State::new(&model(), Configuration::default(), 1).unwrap();
        state.allocate(MAIN).unwrap();
        fill(&mut state, 0, 4.0);
        fill(&mut state, 1, 1.0);
        assert_eq!(difference(&mut state), [3.0; 4]);
        state.rebuild(on_gpu()).unwrap();
        assert_eq!((is_shared(&state), difference(&mut state)), ([false; 3], vec![3.0; 4]));
        fill(&mut state, 1, 2.0);
        state.rebuild(Configuration::default()).unwrap();
        assert_eq!((is_shared(&state), difference(&mut state)), ([true; 3], vec![2.0; 4]));

        let mut own = [0.0_f32; 4];
        state.set_custom(MAIN, 2, own.as_mut_ptr().cast(), 16).unwrap();
        state.invoke(MAIN).unwrap();
        assert_eq!((is_shared(&state), own), ([true, true, false], [2.0; 4]));
        state.resize(MAIN, 0, &[1]).unwrap();
        state.rebuild(Configuration::default()).unwrap();
        state.allocate(MAIN).unwrap();
        fill(&mut state, 0, 9.0);
        state.invoke(MAIN).unwrap();
        assert_eq!((is_shared(&state), own), ([true, true, false], [7.0; 4]));
    }
}
