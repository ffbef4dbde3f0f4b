//! The plug-in's library, and runs of models with it.

use std::path::PathBuf;

use attache::{CompiledModel, Delegate, Interpreter, Model};

/// Returns the library, which cargo builds beside the tests.
pub(crate) fn library() -> PathBuf {
    let tests = std::env::current_exe().expect("the path of the test").parent().expect("a folder").to_owned();
    let name = format!("{}attache_delegate{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
    let found = [tests.join(&name), tests.join("..").join(&name)].into_iter().find(|path| path.exists());
    found.expect("the plug-in is built with its tests")
}

pub(crate) fn compile(model: &Model, delegate: impl Delegate + 'static) -> CompiledModel {
    Interpreter::builder(model).delegate(delegate).compile().expect("the model compiles")
}

/// Returns an interpreter whose inputs have values that depend on nothing but their place.
pub(crate) fn filled(compiled: &CompiledModel) -> Interpreter {
    let mut interpreter = compiled.interpreter().expect("an interpreter");
    for input in 0..interpreter.inputs().len() {
        let mut tensor = interpreter.input(input).expect("an input");
        let values: Vec<f32> = (0..tensor.elements()).map(|place| (place * 37 % 101) as f32 / 101.0).collect();
        // Inputs that neither are floats nor stand for floats stay 0.
        drop(tensor.quantize_from(&values));
    }
    interpreter
}

/// Runs once and returns all outputs.
pub(crate) fn next(interpreter: &mut Interpreter) -> Vec<Vec<u8>> {
    interpreter.invoke().expect("it runs");
    (0..interpreter.outputs().len())
        .map(|output| interpreter.output(output).expect("an output").bytes().to_vec())
        .collect()
}

/// Runs a model on the values of [`filled`], and returns all outputs.
pub(crate) fn run(compiled: &CompiledModel) -> Vec<Vec<u8>> {
    next(&mut filled(compiled))
}
