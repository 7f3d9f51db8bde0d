//! Stable sorts for what is sorted rarely. The standard library's sort is compiled anew for each type and order, to five to ten kilobytes of
//! the guard's library; here one sort of numbers serves them all.
//!
//! Must not: sort many thousands of items, or run on a path that must not allocate.

use std::cmp::Ordering;

pub fn sort_by_key<T, K: Ord>(items: &mut [T], key: impl Fn(&T) -> K) {
    let keys: Vec<K> = items.iter().map(key).collect();
    let mut places = places(items.len(), &|a, b| keys.get(a).cmp(&keys.get(b)));
    for at in 0..items.len() {
        // Each exchange brings one item to its place.
        while let Some(&to) = places.get(at).filter(|&&to| to != at) {
            items.swap(at, to);
            places.swap(at, to);
        }
    }
}

/// Groups the items, in the order in which each key comes first.
pub fn grouped<K: PartialEq, T>(items: impl IntoIterator<Item = T>, key: impl Fn(&T) -> K) -> Vec<(K, Vec<T>)> {
    let mut groups: Vec<(K, Vec<T>)> = Vec::new();
    for item in items {
        let own = key(&item);
        match groups.iter_mut().find(|(known, _)| *known == own) {
            Some((_, same)) => same.push(item),
            None => groups.push((own, vec![item])),
        }
    }
    groups
}

fn places(count: usize, compare: &dyn Fn(usize, usize) -> Ordering) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    order.sort_by(|&a, &b| compare(a, b));
    let mut places = vec![0; count];
    order.into_iter().enumerate().for_each(|(place, item)| places[item] = place);
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_sorts_as_the_standard_library_does() {
        let mut seed = 1u32;
        let mut random = || {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            seed >> 24
        };
        for count in (0..40).chain([1000]) {
            let items: Vec<(u32, usize)> = (0..count).map(|n| (random() % 16, n)).collect();
            let (mut own, mut standard) = (items.clone(), items);
            sort_by_key(&mut own, |item| item.0);
            standard.sort_by_key(|item| item.0);
            assert_eq!(own, standard);
            sort_by_key(&mut own, |item| std::cmp::Reverse(*item));
            standard.sort_by_key(|item| std::cmp::Reverse(*item));
            assert_eq!(own, standard);
        }
    }
}
