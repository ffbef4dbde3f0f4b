//! Builds the classes for Java and their native library, runs their tests, and packs them into a jar.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::{TESTED, cargo, must, root, setup, target, tested_libraries};

/// The version of Java whose classes and language are used, which Android has too.
const RELEASE: &str = "8";

/// Where Debian's package `junit4` and the one it needs put their classes.
const JUNIT: [&str; 2] = ["/usr/share/java/junit4.jar", "/usr/share/java/hamcrest.jar"];

/// The native libraries, in the order in which they are loaded.
const LIBRARIES: [&str; 2] = ["libattache_c.so", "libattache_jni.so"];

/// The page of the guide whose Java runs as tests.
const GUIDE: &str = "docs/guide/src/java.md";

/// The example that writes the models of the tests.
const MODELS: &str = "java_models";

/// A model of the golden cases whose state is in variables.
const VARIABLES: &str = "conformance/cases/f32_UNIDIRECTIONAL_SEQUENCE_LSTM_coupled/model.tflite";

/// Compiled classes and libraries, and where they are.
struct Built {
    /// The folder of what is built here.
    folder: PathBuf,
    /// The folder of what cargo builds.
    cargo: PathBuf,
    profile: String,
}

impl Built {
    /// Builds the library for C, the classes and the library that joins them. Warnings are errors.
    fn new(profile: &str) -> Result<Self> {
        let target = target();
        let name = if profile == "dev" { "debug" } else { profile };
        let built =
            Self { folder: target.join("java").join(name), cargo: target.join(name), profile: profile.to_owned() };
        // What an earlier version left would be packed too.
        if built.folder.exists() {
            fs::remove_dir_all(&built.folder)?;
        }
        for folder in ["classes", "headers", "libraries", "models", "tests"] {
            fs::create_dir_all(built.folder(folder))?;
        }
        built.build_library()?;
        let sources = root().join("java/src/main/java");
        let mut compile = javac();
        compile.arg("-h").arg(built.folder("headers")).arg("-d").arg(built.folder("classes"));
        must(compile.args(sources_in(&sources)?))?;
        built.join()?;
        Ok(built)
    }

    fn folder(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Builds the library for C, unless the tests have.
    fn build_library(&self) -> Result<()> {
        let mut built = tested_libraries();
        if self.profile != "dev" {
            let mut command = cargo();
            command.args(["rustc", "--package", "attache-c", "--lib", "--profile", &self.profile]);
            must(command.args(["--crate-type", "cdylib"]))?;
            built.clone_from(&self.cargo);
        }
        let library = self.folder("libraries").join(LIBRARIES[0]);
        fs::copy(built.join(LIBRARIES[0]), library).with_context(|| built.display().to_string())?;
        Ok(())
    }

    /// Compiles the native functions of the classes. They find the library for C in their own folder.
    fn join(&self) -> Result<()> {
        let source = root().join("java/jni/attache_jni.c");
        let headers = java_home()?.join("include");
        let libraries = self.folder("libraries");
        let mut compile = Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()));
        compile.args(["-std=c11", "-O2", "-fPIC", "-fvisibility=hidden", "-shared", "-Wall", "-Wextra", "-Werror"]);
        for folder in
            [headers.clone(), headers.join("linux"), self.folder("headers"), root().join("crates/attache-c/include")]
        {
            compile.arg("-I").arg(folder);
        }
        compile.arg(source).arg("-L").arg(&libraries).args(["-lattache_c", "-Wl,-rpath,$ORIGIN", "-Wl,--no-undefined"]);
        // Both sizes of pages that devices with Android have.
        compile.args(["-Wl,-z,max-page-size=16384"]);
        must(compile.arg("-o").arg(libraries.join(LIBRARIES[1]))).map(drop)
    }

    /// Compiles and runs the tests, with all checks of the native interface. `classes` is a folder or a jar; `properties`
    /// are options of the virtual machine.
    fn test(&self, classes: &Path, properties: &[OsString]) -> Result<()> {
        for jar in JUNIT {
            ensure!(
                Path::new(jar).is_file(),
                "there is no {jar}: run `cargo xtask setup`, or install the package junit4"
            );
        }
        must(Command::new(self.models_program()?).arg(self.folder("models")))?;
        let tests = self.folder("tests");
        let mut sources = sources_in(&root().join("java/src/test/java"))?;
        let guide = self.folder("models").join("GuideTest.java");
        fs::write(&guide, tests_of_guide(&fs::read_to_string(root().join(GUIDE))?))?;
        sources.push(guide);
        let path = join_paths(&[&[classes.to_owned(), tests.clone()], &JUNIT.map(PathBuf::from)[..]].concat())?;
        must(javac().arg("-cp").arg(&path).arg("-d").arg(&tests).args(&sources))?;

        let stem = |path: &PathBuf| path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
        let names = sources.iter().filter_map(stem).filter(|name| name.ends_with("Test"));
        let mut run = Command::new("java");
        // All of Java's memory is there from the start, so that what grows is native.
        run.args(["-Xcheck:jni", "-Xms128m", "-Xmx128m", "-XX:+AlwaysPreTouch", "-XX:+UseSerialGC", "-ea"])
            .args(properties)
            .arg("-cp")
            .arg(&path);
        run.arg(property("attache.test.models", &self.folder("models")));
        run.arg(property("attache.test.variables", &root().join(VARIABLES)));
        run.arg("org.junit.runner.JUnitCore").args(names.map(|name| format!("org.tensorflow.lite.{name}")));
        let printed = must(run.envs(setup::environment()?).env("ATTACHE_SOFTWARE", "1"))?;
        // Lines of the tests, and how many there were.
        printed
            .lines()
            .filter(|line| line.contains(" times, ") || line.starts_with("OK"))
            .for_each(|line| println!("{line}"));
        ensure!(printed.contains("OK ("), "no tests were run:\n{printed}");
        let warnings: Vec<&str> = printed.lines().filter(|line| is_warning(line)).collect();
        ensure!(warnings.is_empty(), "the native interface is used wrongly:\n{printed}");
        Ok(())
    }

    /// Builds and returns the program that writes the models of the tests.
    fn models_program(&self) -> Result<PathBuf> {
        // The examples of the whole workspace have the features of its tests, so that nothing is compiled for them anew.
        must(cargo().args(["build", "--quiet"]).args(TESTED).args(["--example", MODELS]))?;
        let target = self.cargo.parent().context("a folder of cargo's")?;
        Ok(target.join("debug/examples").join(MODELS))
    }

    /// Packs classes and libraries into a jar, and returns its path.
    fn pack(&self) -> Result<PathBuf> {
        let platform = format!("{}-{}", std::env::consts::OS, std::env::consts::ARCH);
        let native = self.folder("classes").join("native").join(platform);
        fs::create_dir_all(&native)?;
        for name in LIBRARIES {
            fs::copy(self.folder("libraries").join(name), native.join(name))?;
        }
        let licenses = self.folder("classes").join("META-INF");
        fs::create_dir_all(&licenses)?;
        for name in ["LICENSE-APACHE", "LICENSE-MIT"] {
            fs::copy(root().join(name), licenses.join(name))?;
        }
        let manifest = self.folder("manifest");
        let version = env!("CARGO_PKG_VERSION");
        let text = format!(
            "Implementation-Title: attache\nImplementation-Version: {version}\nAutomatic-Module-Name: org.tensorflow.lite\n"
        );
        fs::write(&manifest, text)?;
        let jar = self.folder(&format!("attache-{version}.jar"));
        let mut pack = Command::new("jar");
        must(pack.arg("cfm").arg(&jar).arg(&manifest).arg("-C").arg(self.folder("classes")).arg("."))?;
        Ok(jar)
    }
}

/// Returns the source of a test class that runs the Java of the guide's page. What it needs are fields of the class.
fn tests_of_guide(page: &str) -> String {
    let blocks = page.split("```java\n").skip(1).filter_map(|rest| rest.split("```").next());
    let tests = blocks.enumerate().map(|(index, block)| {
        format!("    @org.junit.Test\n    public void block{index}() throws Exception {{\n{block}    }}\n")
    });
    format!(
        "package org.tensorflow.lite;\n\nimport java.io.*;\nimport java.nio.*;\nimport java.nio.channels.*;\n\
         import java.util.*;\nimport org.tensorflow.lite.gpu.*;\n\npublic final class GuideTest {{\n    \
         private final File model = Models.file(\"square\");\n    private final File signatures = Models.file(\"signatures\");\n    \
         private final float[][] input = {{{{1, 2, 3, 4}}}};\n    private final float[][] output = new float[1][4];\n\n{}}}\n",
        tests.collect::<String>()
    )
}

/// Whether a line of the virtual machine says that native code broke a rule.
fn is_warning(line: &str) -> bool {
    ["WARNING in native method", "FATAL ERROR in native method", "WARNING: JNI"].iter().any(|text| line.contains(text))
}

/// Makes the jar; with `--test`, runs the tests on it.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let (mut profile, mut is_tested) = ("dist".to_owned(), false);
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--profile" => profile = words.next().context("--profile needs a name")?.clone(),
            "--test" => is_tested = true,
            _ => bail!("usage: cargo xtask jar [--profile NAME] [--test]"),
        }
    }
    let built = Built::new(&profile)?;
    let jar = built.pack()?;
    if is_tested {
        built.test(&jar, &[])?;
    }
    println!("{}", jar.display());
    Ok(())
}

/// Compiles the classes and runs their tests on the library that other tests use.
pub(crate) fn check() -> Result<()> {
    let built = Built::new("dev")?;
    built.test(&built.folder("classes"), &[property("attache.native.path", &built.folder("libraries"))])
}

fn property(name: &str, value: &Path) -> OsString {
    let mut option = OsString::from(format!("-D{name}="));
    option.push(value);
    option
}

fn javac() -> Command {
    let mut command = Command::new("javac");
    // The option for old versions of Java is itself a warning of newer ones.
    command.args(["--release", RELEASE, "-encoding", "UTF-8", "-Xlint:all,-options", "-Werror"]);
    command
}

/// Returns the folder of the JDK, in which the headers of the native interface are.
fn java_home() -> Result<PathBuf> {
    let printed = Command::new("java").args(["-XshowSettings:properties", "-version"]).output();
    let printed = printed.context("there is no Java: run `cargo xtask setup`, or install a JDK")?;
    let text = String::from_utf8_lossy(&printed.stderr).into_owned();
    let home = text.lines().find_map(|line| line.trim().strip_prefix("java.home = "));
    Ok(home.context("java does not say where it is")?.into())
}

/// Returns the sources in a folder and those below it, sorted.
fn sources_in(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(sources_in(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "java") {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

fn join_paths(paths: &[PathBuf]) -> Result<OsString> {
    std::env::join_paths(paths).context("the name of a folder has the character that separates folders")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_of_the_virtual_machine_are_recognized() {
        assert!(is_warning("WARNING in native method: JNI local refs: 33, exceeds capacity: 32"));
        assert!(is_warning("FATAL ERROR in native method: Bad global or local ref passed to JNI"));
        assert!(!is_warning("OK (50 tests)"));
    }

    #[test]
    fn blocks_of_java_are_tests() {
        let source = tests_of_guide("text\n```java\none();\n```\n```sh\nno\n```\n```java\ntwo();\n```\n");
        assert!(source.contains("block0() throws Exception {\none();\n    }"), "{source}");
        assert!(source.contains("block1() throws Exception {\ntwo();\n    }") && !source.contains("no\n"), "{source}");
    }

    #[test]
    fn sources_of_classes_and_tests_are_found() {
        let names = |folder: &str| sources_in(&root().join("java/src").join(folder)).unwrap().len();
        assert!(names("main/java") > 15 && names("test/java") > 5);
    }
}
