use std::collections::{HashSet, VecDeque};

use ollie_protocol::{CallId, limits};

/// The ids that were used last, [`limits::IDS_REMEMBERED`] of them.
#[derive(Default)]
pub(crate) struct UsedIds {
    order: VecDeque<CallId>,
    known: HashSet<CallId>,
}

impl UsedIds {
    pub(crate) fn contains(&self, id: &CallId) -> bool {
        self.known.contains(id)
    }

    /// Takes one more in and lets go of the oldest.
    pub(crate) fn add(&mut self, id: CallId) {
        if self.known.insert(id.clone()) {
            self.order.push_back(id);
        }
        while self.order.len() > limits::IDS_REMEMBERED {
            if let Some(oldest) = self.order.pop_front() {
                self.known.remove(&oldest);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_is_forgotten_first_and_memory_is_bounded() {
        let id = |number: usize| CallId::new(format!("c{number}")).unwrap();
        let mut used = UsedIds::default();
        for number in 0..=limits::IDS_REMEMBERED {
            used.add(id(number));
        }
        assert!(!used.contains(&id(0)));
        assert!(used.contains(&id(1)));
        assert_eq!(used.known.len(), limits::IDS_REMEMBERED);
        assert_eq!(used.order.len(), used.known.len());
    }
}
