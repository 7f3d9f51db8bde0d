//! The catalogue of codes. Each has a section in `docs/HAZARDS.md` under its title here. `CONTRIBUTING.md` has the steps for a new one.

macro_rules! codes {
    ($($code:ident $number:literal $title:literal;)+) => {
        /// A hang (LG2xx) or a hazard (LG1xx).
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
        pub enum Code {
            $($code,)+
        }

        impl Code {
            pub const ALL: &'static [Self] = &[$(Self::$code,)+];

            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$code => stringify!($code),)+
                }
            }

            pub const fn number(self) -> u16 {
                match self {
                    $(Self::$code => $number,)+
                }
            }

            pub fn title(self) -> &'static str {
                match self {
                    $(Self::$code => $title,)+
                }
            }
        }
    };
}

codes! {
    LG101 101 "a cold function was loaded while other work was in flight";
    LG102 102 "a module was loaded into a context with work in flight";
    LG103 103 "a stream wait was submitted before the operation that satisfies it";
    LG104 104 "a call that waits for the whole context was made while a wait was unsatisfied or a kernel long in flight";
    LG105 105 "an asynchronous copy blocked the host";
    LG106 106 "a launch of a loaded kernel blocked the host";
    LG107 107 "a launch had to grow local memory";
    LG108 108 "code was compiled at run time on a path that is timed or concurrent";
    LG109 109 "a grid that must be resident at once leaves no room for the kernel it waits for";
    LG110 110 "code was loaded after the program had said that it was ready";
    LG201 201 "a cold function load put a barrier on the device behind work that does not end";
    LG202 202 "a thread is blocked loading a module into a context with work that does not end";
    LG203 203 "a stream waits for a value that no submitted operation writes";
    LG204 204 "a thread is blocked in a call that waits for the whole context";
    LG205 205 "the launch queue is full behind work that does not end";
    LG206 206 "a kernel cannot start because the device is filled by one that does not end";
    LG207 207 "a stream waits for a host function that does not return";
    LG208 208 "a collective waits for ranks that have not joined";
    LG210 210 "a kernel's warps wait for each other, or for one that has ended";
    LG211 211 "a kernel cannot start because of another stream's in the hardware queue that they share";
    LG212 212 "the context has failed, and the program goes on asking";
    LG299 299 "blocked, and none of the known patterns explains it";
}

impl Code {
    pub fn by_number(number: u16) -> Option<Self> {
        Self::ALL.iter().copied().find(|c| c.number() == number)
    }
}

impl std::fmt::Display for Code {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_codes_name_says_its_number() {
        for &code in Code::ALL {
            assert_eq!(code.name(), format!("LG{}", code.number()));
            assert_eq!(Code::by_number(code.number()), Some(code));
        }
    }
}
