//! The compiled libraries, and the model that they run.

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use attache::DataType::Float32;
use attache::model::schema::{AddOptionsT, BuiltinOperator, BuiltinOptionsT, MulOptionsT};
use attache::{Interpreter, InterpreterBuilder, Model, ModelBuilder, OperatorBuilder, TensorBuilder};
use attache_external::ExternalDelegate;
use tempfile::TempDir;

/// The number of elements of each tensor of [`model`].
pub(crate) const COUNT: usize = 6;

/// Compiles a file of `tests/c` to a library, with warnings as errors, and returns its path.
pub(crate) fn library(source: &str, name: &str, flags: &[&str]) -> PathBuf {
    static FOLDER: OnceLock<TempDir> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| tempfile::tempdir().unwrap()).path();
    // Tests run at once, so each writes a file of its own and renames it.
    let (path, draft) = (folder.join(name), tempfile::NamedTempFile::new_in(folder).unwrap());
    let source = format!("{}/tests/c/{source}", env!("CARGO_MANIFEST_DIR"));
    let mut cc = Command::new("cc");
    cc.args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-O1", "-fPIC", "-shared"]).args(flags);
    let output = cc.arg(&source).arg("-o").arg(draft.path()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    draft.persist(&path).unwrap();
    path
}

/// Returns the classic delegate, which misbehaves if `fault` names a way.
pub(crate) fn arithmetic(fault: &str) -> ExternalDelegate {
    let path = library("arithmetic.c", &format!("libarithmetic_{fault}.so"), &[]);
    ExternalDelegate::load(path, &[("fault", fault)]).unwrap()
}

/// Returns `((x + c) * x) + y`, then its square root, then `+ x`: the delegates take the first three nodes and the last.
pub(crate) fn model() -> Model {
    let mut builder = ModelBuilder::new("arithmetic");
    let main = builder.subgraph("main");
    let add = || BuiltinOptionsT::AddOptions(Box::<AddOptionsT>::default());
    let mul = || BuiltinOptionsT::MulOptions(Box::<MulOptionsT>::default());
    let [x, y, a, b, c, d, e] =
        ["x", "y", "a", "b", "c", "d", "e"].map(|name| builder.tensor(main, TensorBuilder::new(name, Float32, [2, 3])));
    let constant = builder.tensor(main, TensorBuilder::values("constant", [2, 3], &[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0]));
    let mut operator = |code, inputs: &[usize], output, options| {
        let built = OperatorBuilder::new(code, inputs.iter().copied(), [output]).options(options);
        builder.operator(main, built);
    };
    operator(BuiltinOperator::ADD, &[x, constant], a, add());
    operator(BuiltinOperator::MUL, &[a, x], b, mul());
    operator(BuiltinOperator::ADD, &[b, y], c, add());
    operator(BuiltinOperator::SQRT, &[c], d, BuiltinOptionsT::NONE);
    operator(BuiltinOperator::ADD, &[d, x], e, add());
    builder.inputs(main, &[x, y]).outputs(main, &[e]);
    Model::from_bytes(builder.finish()).unwrap()
}

/// Writes the inputs of [`model`], runs it and returns its output.
pub(crate) fn run(interpreter: &mut Interpreter) -> Result<Vec<f32>, attache::Error> {
    for input in 0..2 {
        let values: Vec<f32> = (0..COUNT).map(|element| (element + input) as f32 * 0.75).collect();
        interpreter.input(input)?.copy_from(&values)?;
    }
    interpreter.invoke()?;
    interpreter.output(0)?.as_slice().map(<[f32]>::to_vec)
}

/// Returns the output that the CPU computes.
pub(crate) fn expected() -> Vec<f32> {
    run(&mut Interpreter::builder(&model()).build().unwrap()).unwrap()
}

/// Returns a builder of interpreters of [`model`] with a delegate.
pub(crate) fn with(delegate: ExternalDelegate) -> InterpreterBuilder {
    Interpreter::builder(&model()).delegate(delegate)
}
