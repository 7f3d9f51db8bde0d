//! Protobuf's wire format, as far as a writer needs it. One buffer holds a packet and all it contains.

#[derive(Default)]
pub(super) struct Message {
    bytes: Vec<u8>,
}

const VARINT: u32 = 0;
const FIXED_64: u32 = 1;
const BYTES: u32 = 2;

impl Message {
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub fn clear(&mut self) {
        self.bytes.clear();
    }

    pub fn number(&mut self, field: u32, value: u64) {
        self.key(field, VARINT);
        self.varint(value);
    }

    pub fn fixed(&mut self, field: u32, value: u64) {
        self.key(field, FIXED_64);
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    pub fn text(&mut self, field: u32, text: &str) {
        self.key(field, BYTES);
        self.varint(text.len() as u64);
        self.bytes.extend_from_slice(text.as_bytes());
    }

    pub fn message(&mut self, field: u32, content: impl FnOnce(&mut Self)) {
        self.key(field, BYTES);
        let begin = self.bytes.len();
        // Most are shorter than 128 bytes, so that their length is the one byte that is kept free here.
        self.bytes.push(0);
        content(self);
        let length = self.bytes.len() - begin - 1;
        if length < 0x80 {
            self.bytes[begin] = length as u8;
        } else {
            let (bytes, used) = varint(length as u64);
            self.bytes.splice(begin..=begin, bytes[..used].iter().copied());
        }
    }

    pub fn append(&mut self, fields: &Self) {
        self.bytes.extend_from_slice(&fields.bytes);
    }

    fn key(&mut self, field: u32, wire: u32) {
        self.varint(u64::from(field << 3 | wire));
    }

    fn varint(&mut self, value: u64) {
        let (bytes, used) = varint(value);
        self.bytes.extend_from_slice(&bytes[..used]);
    }
}

/// A number in groups of seven bits, the lowest first, and how many bytes that takes.
pub(super) fn varint(mut value: u64) -> ([u8; 10], usize) {
    let mut bytes = [0; 10];
    let mut used = 0;
    loop {
        bytes[used] = value as u8 & 0x7f | if value > 0x7f { 0x80 } else { 0 };
        used += 1;
        value >>= 7;
        if value == 0 {
            return (bytes, used);
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A field as a reader finds it.
    #[derive(Clone, Debug, PartialEq)]
    pub enum Field {
        Number(u64),
        Fixed(u64),
        Bytes(Vec<u8>),
    }

    fn take_varint(bytes: &mut &[u8]) -> u64 {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let (&byte, rest) = bytes.split_first().expect("a number is cut off");
            *bytes = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return value;
            }
        }
        panic!("a number of more than 64 bits");
    }

    pub fn fields(mut bytes: &[u8]) -> Vec<(u32, Field)> {
        let mut fields = Vec::new();
        while !bytes.is_empty() {
            let key = take_varint(&mut bytes) as u32;
            let value = match key & 7 {
                VARINT => Field::Number(take_varint(&mut bytes)),
                FIXED_64 => {
                    let (value, rest) = bytes.split_first_chunk().expect("a fixed number is cut off");
                    bytes = rest;
                    Field::Fixed(u64::from_le_bytes(*value))
                }
                BYTES => {
                    let length = take_varint(&mut bytes) as usize;
                    let (value, rest) = bytes.split_at(length);
                    bytes = rest;
                    Field::Bytes(value.to_vec())
                }
                other => panic!("wire type {other}"),
            };
            fields.push((key >> 3, value));
        }
        fields
    }

    #[test]
    fn numbers_and_texts_are_written_as_the_format_says() {
        let mut message = Message::default();
        message.number(1, 150);
        message.text(2, "testing");
        // The examples of the format's own description.
        assert_eq!(message.bytes(), b"\x08\x96\x01\x12\x07testing");
        message.clear();
        message.number(3, -2_i64 as u64);
        assert_eq!(message.bytes(), [&[0x18, 0xfe][..], &[0xff; 8], &[1]].concat());
        message.clear();
        message.fixed(47, 1);
        assert_eq!(message.bytes(), [0xf9, 2, 1, 0, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn messages_hold_messages_of_any_length() {
        for length in [0, 100, 124, 125, 126, 127, 128, 129, 200, 16_383, 16_384, 20_000] {
            let text = "x".repeat(length);
            let mut message = Message::default();
            message.message(1, |inner| inner.message(2, |inmost| inmost.text(3, &text)));
            message.number(4, u64::MAX);
            let all = fields(message.bytes());
            assert_eq!(all[1], (4, Field::Number(u64::MAX)), "{length}");
            let (1, Field::Bytes(inner)) = &all[0] else { panic!("{all:?}") };
            let (2, Field::Bytes(inmost)) = &fields(inner)[0] else { panic!("{length}") };
            assert_eq!(fields(inmost), [(3, Field::Bytes(text.into_bytes()))]);
        }
    }
}
