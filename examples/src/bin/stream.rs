//! Feeds a stream to a network with state, one frame a run.
//!
//!     cargo run --release -p attache-examples --bin stream [gpu] [MODEL]
//!
//! The built-in model is an LSTM whose cell adds up how loud the frames are. Variable tensors keep the cell from run to
//! run; `reset_variables` starts a new stream. With a model of yours, frames are filled with one value each.

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
            let scores = interpreter.read::<f32>(0)?;
            println!("frame {loudness}: quiet so far {:.4}, busy so far {:.4}", scores[0], scores[1]);
        }
        interpreter.reset_variables();
    }
    Ok(())
}
