//! Installs the library for C and C++: libraries, headers, and what pkg-config and CMake find them by.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::small::{library, link_small};
use crate::{must, root, target, tested_libraries};

/// The name that TensorFlow Lite's own library has, and that programs link or load.
const COMPATIBLE_NAME: &str = "libtensorflowlite_c.so";

/// System libraries that the static library needs.
const SYSTEM_LIBRARIES: &str = "-lpthread -ldl -lm -lgcc_s -lc";

struct Options {
    prefix: PathBuf,
    /// The folder of libraries below the prefix. Debian's is `lib/x86_64-linux-gnu`.
    libdir: PathBuf,
    profile: String,
    has_gpu: bool,
}

/// Builds the library and installs it to a folder.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let options = parse(arguments)?;
    let built = build(&options)?;
    install(&options, &built)
}

/// Installs the libraries of a folder, and what belongs to them.
fn install(options: &Options, built: &Path) -> Result<()> {
    let libraries = options.prefix.join(&options.libdir);
    fs::create_dir_all(&libraries)?;
    for name in ["libattache_c.so", "libattache_c.a"] {
        copy(&built.join(name), &libraries.join(name))?;
    }
    link_under_compatible_name(&libraries)?;
    copy_folder(&root().join("crates/attache-c/include"), &options.prefix.join("include"))?;
    describe(options, &libraries)?;
    println!("installed to {}", options.prefix.display());
    Ok(())
}

fn parse(arguments: &[String]) -> Result<Options> {
    let mut options =
        Options { prefix: PathBuf::new(), libdir: "lib".into(), profile: "dist".to_owned(), has_gpu: true };
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let mut value = || words.next().with_context(|| format!("{word} needs a value"));
        match word.as_str() {
            "--prefix" => options.prefix = value()?.into(),
            "--libdir" => options.libdir = value()?.into(),
            "--profile" => options.profile = value()?.clone(),
            "--no-gpu" => options.has_gpu = false,
            _ => bail!("usage: cargo xtask install --prefix FOLDER [--libdir FOLDER] [--profile NAME] [--no-gpu]"),
        }
    }
    ensure!(options.prefix.is_absolute(), "--prefix needs the path of a folder, from the root on");
    Ok(options)
}

/// Builds the libraries, and returns the folder in which they are.
fn build(options: &Options) -> Result<PathBuf> {
    let profile = options.profile.as_str();
    let mut command = library("attache-c", profile, "cdylib,staticlib");
    command.args((!options.has_gpu).then_some("--no-default-features"));
    must(link_small(&mut command, profile))?;
    Ok(target().join(if profile == "dev" { "debug" } else { profile }))
}

/// Links the static library once more, to a shared one whose own name is that of TensorFlow Lite's library, with the
/// version of symbols that its exports have, so that programs that were linked with that one find it.
fn link_under_compatible_name(libraries: &Path) -> Result<()> {
    let exported = must(Command::new("nm").args(["-D", "--defined-only"]).arg(libraries.join("libattache_c.so")))?;
    let names = exported.lines().filter_map(|line| line.split_whitespace().nth(2));
    let script = libraries.join("exports.map");
    let names: Vec<String> = names.map(|name| format!("  {name};\n")).collect();
    fs::write(&script, format!("VERS_1.0 {{ global:\n{}local: *; }};\n", names.concat()))?;
    let mut version_script = std::ffi::OsString::from("-Wl,--version-script=");
    version_script.push(&script);
    let mut command = Command::new("cc");
    command.args(["-shared", "-Wl,--gc-sections", "-Wl,--strip-debug"]).arg(format!("-Wl,-soname,{COMPATIBLE_NAME}"));
    command.arg(version_script).arg("-Wl,--whole-archive").arg(libraries.join("libattache_c.a"));
    command.arg("-Wl,--no-whole-archive").args(SYSTEM_LIBRARIES.split(' '));
    let linked = must(command.arg("-o").arg(libraries.join(COMPATIBLE_NAME)));
    fs::remove_file(script)?;
    linked.map(drop)
}

/// Writes the files that pkg-config and CMake read. They name folders relative to their own, so that the prefix may be
/// moved.
fn describe(options: &Options, libraries: &Path) -> Result<()> {
    let version = env!("CARGO_PKG_VERSION");
    // CMake compares numbers only.
    let number = version.split('-').next().unwrap_or(version);
    let up = |folders: usize| "/..".repeat(folders);
    let depth = options.libdir.components().count();
    let folder = options.libdir.display();
    let pkg_config = format!(
        "prefix=${{pcfiledir}}{}\nlibdir=${{prefix}}/{folder}\nincludedir=${{prefix}}/include\n\n\
         Name: attache\nDescription: Runs TensorFlow Lite models on the CPU and on any GPU\nVersion: {version}\n\
         Libs: -L${{libdir}} -lattache_c\nLibs.private: {SYSTEM_LIBRARIES}\nCflags: -I${{includedir}}\n",
        up(depth + 1)
    );
    write(&libraries.join("pkgconfig/attache.pc"), &pkg_config)?;
    let cmake = libraries.join("cmake/attache");
    let package = format!(
        "get_filename_component(attache_prefix \"${{CMAKE_CURRENT_LIST_DIR}}{}\" ABSOLUTE)\n\
         if(NOT TARGET attache::attache)\n  add_library(attache::attache SHARED IMPORTED)\n  \
         set_target_properties(attache::attache PROPERTIES\n    \
         IMPORTED_LOCATION \"${{attache_prefix}}/{folder}/libattache_c.so\"\n    \
         IMPORTED_SONAME \"libattache_c.so\"\n    \
         INTERFACE_INCLUDE_DIRECTORIES \"${{attache_prefix}}/include\")\nendif()\n",
        up(depth + 2)
    );
    write(&cmake.join("attache-config.cmake"), &package)?;
    let versions = format!(
        "set(PACKAGE_VERSION \"{number}\")\n\
         if(PACKAGE_FIND_VERSION VERSION_LESS_EQUAL PACKAGE_VERSION)\n  set(PACKAGE_VERSION_COMPATIBLE TRUE)\nendif()\n\
         if(PACKAGE_FIND_VERSION VERSION_EQUAL PACKAGE_VERSION)\n  set(PACKAGE_VERSION_EXACT TRUE)\nendif()\n"
    );
    write(&cmake.join("attache-config-version.cmake"), &versions)
}

/// Installs what was built for tests to a new folder, and builds and runs programs that find it through CMake and
/// pkg-config.
pub(crate) fn check() -> Result<()> {
    let folder = std::env::temp_dir().join(format!("attache-install-{}", std::process::id()));
    let checked = check_in(&folder);
    fs::remove_dir_all(&folder)?;
    checked
}

fn check_in(folder: &Path) -> Result<()> {
    let (prefix, projects) = (folder.join("prefix"), root().join("crates/attache-c/tests/installed"));
    let text = |path: &Path| path.to_str().map(str::to_owned).context("a folder whose name is not UTF-8");
    // The folder of Debian's packages, which CMake looks into.
    let folder_of_libraries = Path::new("lib").join(must(Command::new("cc").arg("-print-multiarch"))?.trim());
    let libdir = text(&folder_of_libraries)?;
    let options = parse(&["--prefix", &text(&prefix)?, "--libdir", &libdir].map(str::to_owned))?;
    install(&options, &tested_libraries())?;
    let build = folder.join("cmake");
    let mut configure = Command::new("cmake");
    configure.arg("-S").arg(&projects).arg("-B").arg(&build);
    must(configure.arg(format!("-DCMAKE_PREFIX_PATH={}", text(&prefix)?)))?;
    must(Command::new("cmake").arg("--build").arg(&build))?;
    must(&mut Command::new(build.join("program")))?;

    let libraries = prefix.join(&folder_of_libraries);
    let mut ask = Command::new("pkg-config");
    let flags = must(ask.args(["--cflags", "--libs", "attache"]).env("PKG_CONFIG_PATH", libraries.join("pkgconfig")))?;
    let program = folder.join("program");
    let mut compile = Command::new("cc");
    compile.arg(projects.join("program.c")).args(flags.split_whitespace()).arg("-o").arg(&program);
    must(&mut compile)?;
    must(Command::new(&program).env("LD_LIBRARY_PATH", &libraries))?;

    // The same program, linked with the library under the name of TensorFlow Lite's.
    let compatible_name = folder.join("compatible_name");
    let mut compile = Command::new("cc");
    compile.arg(projects.join("program.c")).arg("-I").arg(prefix.join("include")).arg("-L").arg(&libraries);
    must(compile.arg("-ltensorflowlite_c").arg("-o").arg(&compatible_name))?;
    must(Command::new(&compatible_name).env("LD_LIBRARY_PATH", &libraries)).map(drop)
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::create_dir_all(path.parent().context("a file in no folder")?)?;
    fs::write(path, text).with_context(|| path.display().to_string())
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::copy(from, to).map(drop).with_context(|| format!("{} to {}", from.display(), to.display()))
}

fn copy_folder(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from).with_context(|| from.display().to_string())? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.path().is_dir() { copy_folder(&entry.path(), &target)? } else { copy(&entry.path(), &target)? }
    }
    Ok(())
}
