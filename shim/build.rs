//! Link options of the library: it stays in the process once it is there, because the pointers it handed out do.

fn main() {
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,liblazyguard.so");
    println!("cargo:rerun-if-changed=build.rs");
}
