//! Runs a model on a delegate that somebody else wrote, in a crate that depends on `attache` alone:
//! `examples/delegate`.
//!
//!     cargo run --release -p attache-examples --bin delegate [gpu]
//!
//! With `gpu`, the GPU delegate gets what the first delegate leaves.

use attache_example_delegate::SumDelegate;
use attache_examples::{Arguments, Result, models};

fn main() -> Result {
    let arguments = Arguments::read();
    let model = models::sums()?;
    let mut builder = attache::Interpreter::builder(&model).delegate(SumDelegate);
    if arguments.gpu {
        builder = builder.delegate(attache::GpuDelegate::new(Default::default())?);
    }
    let mut interpreter = builder.build()?;
    interpreter.write("x", &[1.0f32, -2.0, 3.0])?;
    interpreter.invoke()?;
    println!("{:?}", interpreter.read::<f32>("y")?);
    print!("{}", interpreter.placement());
    Ok(())
}
