//! Kernel names as a person would write them.

/// The source name of a mangled kernel, without its parameters; any other name as it is.
pub fn demangle(name: &str) -> String {
    let Ok(symbol) = cpp_demangle::Symbol::new(name) else { return name.to_owned() };
    let options = cpp_demangle::DemangleOptions::new().no_params().no_return_type();
    symbol.demangle_with_options(&options).unwrap_or_else(|_| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_like_the_source() {
        for (mangled, expect) in [
            ("_Z2k1v", "k1"),
            ("_Z14trivial_kernelPii", "trivial_kernel"),
            ("_ZN2at6native13reduce_kernelILi512EEEvv", "at::native::reduce_kernel<512>"),
            ("spin", "spin"),
            ("_Z", "_Z"),
            ("function 0x55", "function 0x55"),
        ] {
            assert_eq!(demangle(mangled), expect);
        }
    }
}
