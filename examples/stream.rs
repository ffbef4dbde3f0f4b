//! Feeds a stream to a network with state, one frame a run.
//!
//!     cargo run --release -p attache-examples --bin stream [gpu] [MODEL]
//!
//! The built-in model is an LSTM whose cell adds up how loud the frames are, and two scores of the sum: quiet so far, and
//! busy so far. Variable tensors keep the cell from run to run; `reset_variables` starts a new stream. The frames of
//! another model are filled with the same values.

use attache::Model;
use attache_examples::{Arguments, Result, models};

fn main() -> Result {
    let arguments = Arguments::read();
    let model = match arguments.file(0) {
        Some(path) => Model::from_path(path)?,
        None => models::counter()?,
    };
    let mut interpreter = arguments.builder(&model)?.build()?;
    for stream in ["first stream", "second stream"] {
        println!("{stream}");
        for loudness in [0.0f32, 1.0, 1.0, 0.0, 0.0, 1.0] {
            interpreter.input_mut::<f32>(0)?.fill(loudness);
            interpreter.invoke()?;
            println!("frame {loudness}: {:.4?}", interpreter.read::<f32>(0)?);
        }
        interpreter.reset_variables();
    }
    Ok(())
}
