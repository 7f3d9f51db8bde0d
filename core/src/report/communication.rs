//! A call of NCCL in words.

use crate::api::{data_type_name, operator_name, Class, EntryPoint};
use crate::trace::Communication;

pub fn collective_name(entry_point: EntryPoint) -> &'static str {
    let symbol = entry_point.symbol();
    symbol.strip_prefix("nccl").unwrap_or(symbol)
}

/// `1,048,576 float32, sum`, `64 int8 from rank 3`.
pub fn arguments_in_words(entry_point: EntryPoint, about: &Communication) -> String {
    let mut words = format!("{} {}", in_thousands(about.count), data_type_name(about.data_type));
    if let Some(operator) = about.operator {
        words += &format!(", {}", operator_name(operator));
    }
    if let Some(root) = about.root {
        let what = match entry_point.class() {
            Class::PointToPoint if entry_point.symbol() == "ncclSend" => " to rank",
            Class::PointToPoint => " from rank",
            _ => ", root",
        };
        words += &format!("{what} {root}");
    }
    words
}

fn in_thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_collective_is_told_by_its_arguments() {
        let about =
            |count, operator, root| Communication { communicator: 1, number: 14, count, data_type: 7, operator, root };
        for (symbol, about, expect) in [
            ("ncclAllReduce", about(1 << 20, Some(0), None), "AllReduce of 1,048,576 float32, sum"),
            ("ncclBroadcast", about(12, None, Some(3)), "Broadcast of 12 float32, root 3"),
            ("ncclSend", about(1234, None, Some(0)), "Send of 1,234 float32 to rank 0"),
            ("ncclRecv", about(0, None, Some(9)), "Recv of 0 float32 from rank 9"),
            ("ncclReduce", about(5, Some(77), Some(0)), "Reduce of 5 float32, operator 77, root 0"),
        ] {
            let entry_point = EntryPoint::by_symbol(symbol.as_bytes()).unwrap();
            let told = format!("{} of {}", collective_name(entry_point), arguments_in_words(entry_point, &about));
            assert_eq!(told, expect);
        }
    }
}
