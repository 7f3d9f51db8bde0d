//! Link options of the library: it stays in the process once it is there, because the pointers it handed out do. Its constructor runs before
//! those of all other objects, whose references to the driver it binds. The dynamic linker looks for none of its own functions when a process starts. Each segment begins with a page of its own: the linker would begin one in the middle of a page, and so
//! relocate pages that it need not.

fn main() {
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,initfirst");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-Bsymbolic");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,separate-loadable-segments");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,liblazyguard.so");
    println!("cargo:rerun-if-changed=build.rs");
}
