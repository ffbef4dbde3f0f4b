//! Models and compiled models as classes of Python.

use std::path::PathBuf;
use std::sync::Arc;

use attache::{CompiledModel, Delegate, Interpreter, Model, Outcome};
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::fault::Fault;
use crate::gpu::NativeGpuDelegate;
use crate::interpreter::NativeInterpreter;
use crate::state::{Settings, State};

/// A model file.
#[pyclass(frozen, module = "attache._attache")]
pub(crate) struct NativeModel(Model);

/// A model that is ready to run. Interpreters of it share its weights.
#[pyclass(frozen, module = "attache._attache")]
pub(crate) struct NativeCompiled {
    compiled: CompiledModel,
    subgraph: usize,
}

#[pymethods]
impl NativeModel {
    #[staticmethod]
    fn from_path(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        let model = py.detach(|| Model::from_path(&path)).map_err(|error| {
            let text = error.to_string();
            match error.kind() {
                attache::ModelErrorKind::Io => PyOSError::new_err(text),
                _ => PyValueError::new_err(text),
            }
        })?;
        Ok(Self(model))
    }

    #[staticmethod]
    fn from_content(py: Python<'_>, content: &Bound<'_, PyBytes>) -> PyResult<Self> {
        let bytes = content.as_bytes();
        let model = py.detach(|| Model::from_bytes(bytes));
        Ok(Self(model.map_err(|error| PyValueError::new_err(error.to_string()))?))
    }

    /// Returns a model that is built in, by its name.
    #[staticmethod]
    fn zoo(py: Python<'_>, name: &str) -> PyResult<Self> {
        let model = py.detach(|| attache::zoo::model(name));
        Ok(Self(model.map_err(|error| Fault::from(error).value())?))
    }

    /// Returns the bytes of the file.
    fn content<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, self.0.bytes())
    }

    fn description(&self) -> &str {
        self.0.description()
    }

    /// Returns the keys of the signatures.
    fn signatures(&self) -> Vec<String> {
        self.0.signatures().iter().map(|signature| signature.key.clone()).collect()
    }

    /// Returns the names that a signature gives to inputs and outputs, each with the index of its tensor.
    #[allow(clippy::type_complexity)]
    fn signature_names(&self, key: &str) -> Option<(Vec<(String, usize)>, Vec<(String, usize)>)> {
        let signature = self.0.signatures().iter().find(|signature| signature.key == key)?;
        Some((signature.inputs.clone(), signature.outputs.clone()))
    }

    /// Compiles the model for delegates and the CPU.
    #[pyo3(signature = (delegates, threads=None, signature=None, require_delegation=false, cpu_fallback=false, profile=false, cache=None))]
    #[allow(clippy::too_many_arguments)]
    fn compile(
        &self,
        py: Python<'_>,
        delegates: Vec<Py<NativeGpuDelegate>>,
        threads: Option<usize>,
        signature: Option<String>,
        require_delegation: bool,
        cpu_fallback: bool,
        profile: bool,
        cache: Option<PathBuf>,
    ) -> PyResult<NativeCompiled> {
        let mut builder = Interpreter::builder(&self.0)
            .require_delegation(require_delegation)
            .cpu_fallback(cpu_fallback)
            .profile(profile);
        if let Some(threads) = threads {
            builder = builder.threads(threads);
        }
        if let Some(folder) = cache {
            builder = builder.cache(folder);
        }
        let mut subgraph = 0;
        if let Some(key) = signature {
            builder = builder.signature(&key);
            subgraph = self.0.signatures().iter().find(|it| it.key == key).map_or(0, |it| it.subgraph);
        }
        let compiled = py.detach(|| {
            for delegate in delegates {
                builder = match profile {
                    // A delegate that measures, with the same device.
                    true => builder.delegate(delegate.get().gpu().profiled()?),
                    false => builder.delegate(delegate.get().delegate() as Arc<dyn Delegate>),
                };
            }
            builder.compile()
        });
        let compiled = compiled.map_err(|error| Fault::from(error).runtime())?;
        Ok(NativeCompiled { compiled, subgraph })
    }
}

#[pymethods]
impl NativeCompiled {
    fn interpreter(&self, py: Python<'_>) -> PyResult<NativeInterpreter> {
        let made = py.detach(|| State::of(self.compiled.interpreter()?, Settings::default()));
        Ok(NativeInterpreter::of(made.map_err(Fault::runtime)?, Vec::new()))
    }

    /// Returns the placement report as text.
    fn placement_text(&self) -> String {
        self.compiled.placement().to_string()
    }

    /// Returns for each operator its index, its name, where it runs, the partition (-1 on the CPU), and the reason.
    fn placement(&self) -> Vec<(usize, String, String, i64, Option<String>)> {
        let nodes = self.compiled.placement().nodes.iter();
        nodes
            .map(|node| {
                let (place, partition) = match &node.outcome {
                    Outcome::On { delegate, partition } => (delegate.clone(), *partition as i64),
                    Outcome::Cpu => ("CPU".to_owned(), -1),
                    Outcome::Folded { into } => (format!("folded into {into}"), -1),
                };
                (node.index, node.operator.clone(), place, partition, node.reason.clone())
            })
            .collect()
    }

    /// Returns for each operator the tensors that it reads and writes.
    fn wiring(&self) -> Vec<(Vec<usize>, Vec<usize>)> {
        let operators = self.compiled.model().subgraphs()[self.subgraph].operators.iter();
        operators.map(|it| (it.inputs.iter().flatten().copied().collect(), it.outputs.clone())).collect()
    }
}
