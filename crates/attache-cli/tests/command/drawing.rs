//! Tests `attache run --draw`: what is drawn, and that nothing is written if it fails.

use std::path::Path;

use crate::support::{Answer, Scratch, attache, floats, png, relu_of};

struct Drawing {
    scratch: Scratch,
    model: String,
    picture: String,
}

impl Drawing {
    /// Prepares a model that passes a picture of 8 by 8 pixels on, with negative values set to 0.
    fn new() -> Self {
        let scratch = Scratch::new();
        let model = scratch.write("m.tflite", &relu_of(["x", "y"], &[1, 8, 8, 3], None));
        let picture = scratch.write("x.png", &png(8, 8, [255, 0, 255]));
        Self { scratch, model, picture }
    }

    fn run(&self, to: &str, more: &[&str]) -> Answer {
        attache(&[&["run", &self.model, "-d", "cpu", "-i", &self.picture, "--draw", to], more].concat())
    }
}

fn open(path: &str) -> image::RgbImage {
    image::open(path).expect("a picture").to_rgb8()
}

#[test]
fn a_picture_that_the_model_makes_is_written_as_it_is() {
    let drawing = Drawing::new();
    let out = drawing.scratch.path("out.png");
    let answer = drawing.run(&out, &[]);
    assert!(answer.status == 0 && answer.stdout.contains(&format!("drawn to {out}")), "{}", answer.stderr);
    let drawn = open(&out);
    assert_eq!((drawn.dimensions(), drawn.get_pixel(3, 3).0), ((8, 8), [255, 0, 255]));
}

#[test]
fn classes_of_pixels_are_colours_on_the_picture() {
    let drawing = Drawing::new();
    let out = drawing.scratch.path("out.jpg");
    let labels = drawing.scratch.write("labels.txt", b"road\ncar\ntree\n");
    let answer = drawing.run(&out, &["-l", &labels, "--json"]);
    let object = answer.object();
    assert_eq!(object["drawn"], out, "{}", answer.stderr);
    assert_eq!(object["segments"], serde_json::json!([{ "class": 0, "label": "road", "percent": 100.0 }]));
    let drawn = open(&out);
    assert!(drawn.width() == drawn.height() && drawn.width() >= 480);
    // The red of class 0 over magenta.
    let [red, _, blue] = drawn.get_pixel(400, 400).0;
    assert!(red > 200 && blue < 160, "{red} {blue}");
    let text = attache(&["run", &drawing.model, "-d", "cpu", "-i", &drawing.picture, "-l", &labels]).stdout;
    assert!(text.contains("% pixels") && text.contains("road"), "{text}");
}

#[test]
fn what_cannot_be_drawn_leaves_no_file() {
    let drawing = Drawing::new();
    let scratch = &drawing.scratch;
    let labels = scratch.write("labels.txt", b"a\nb\n");
    let [out, folder] = ["out.png", "out"].map(|name| scratch.path(name));
    let vector = scratch.write("vector.tflite", &relu_of(["x", "y"], &[1, 4], None));
    let array = scratch.write("x.npy", &floats(&[1, 4], &[1.0; 4]));
    let deep = scratch.write("deep.tflite", &relu_of(["x", "y"], &[1, 2, 2, 2, 3], None));
    let cpu = ["-d", "cpu", "-o", &folder, "--draw"];
    let cases: [(&[&str], &str, &str); 6] = [
        (&["run", &vector, "-i", &array], &out, "no --input is one"),
        (&["run", &vector], &out, "no --input is one"),
        (&["run", &deep], &out, "nothing to draw: the outputs (of shapes [1, 2, 2, 2, 3])"),
        (&["run", &drawing.model, "-i", &drawing.picture, "-l", &labels], &out, "leave out --labels"),
        (&["run", &drawing.model], "out.gif", "a file that ends in .png or .jpg"),
        (&["run", &drawing.model, "-i", &drawing.picture], "/no/such/x.png", "make it first"),
    ];
    for (command, to, text) in cases {
        let answer = attache(&[command, &cpu, &[to]].concat());
        assert!(answer.status == 2 && answer.stderr.contains(text), "{command:?}: {}", answer.stderr);
        assert!(!Path::new(&out).exists() && !Path::new(&folder).exists(), "{command:?}");
    }
}
