//! A slot for an engine on an I/O thread.

use std::{
    cell::Cell,
    rc::Rc,
    sync::Arc,
    time::{Duration, Instant},
};

use super::call_inbox::CallInbox;
use crate::{
    instance::{Instance, Place},
    modules::Modules,
    options::Options,
};

/// Minimum time between loading two engines in one slot.
const LOAD_PAUSE: Duration = Duration::from_secs(1);

/// An engine and the inboxes of its calls.
#[derive(Debug)]
pub(super) struct Engine {
    pub(super) options: Arc<Options>,
    pub(super) instance: Instance,
    pub(super) mail: CallInbox,
    is_retired: Cell<bool>,
}

impl Engine {
    /// Retires the engine: one of its calls was interrupted, so what other calls expect from that call may never happen. They are woken.
    pub(super) fn retire(&self) {
        self.is_retired.set(true);
        self.mail.call_all();
    }

    pub(super) fn is_retired(&self) -> bool {
        self.is_retired.get()
    }

    fn is_fit(&self) -> bool {
        !self.is_retired() && self.instance.is_sound() && !self.instance.is_worn()
    }
}

/// A slot that creates its engine on first use, and again when the engine is no longer usable.
#[derive(Debug)]
pub(super) struct EngineSlot {
    options: Arc<Options>,
    modules: Arc<Modules>,
    place: Place,
    taken: SlotState,
    /// When the last engine was made, or tried to be.
    loaded_at: Option<Instant>,
}

#[derive(Debug)]
enum SlotState {
    Nobody,
    By(Rc<Engine>),
    /// The script cannot be loaded here; executors run all of it.
    Never,
}

impl EngineSlot {
    pub(super) fn new(options: &Arc<Options>, modules: &Arc<Modules>, place: Place) -> Self {
        Self {
            options: options.clone(),
            modules: modules.clone(),
            place,
            taken: if options.limits.isolated {
                SlotState::Never
            } else {
                SlotState::Nobody
            },
            loaded_at: None,
        }
    }

    /// Whether there is an engine, or one may be created.
    pub(super) fn may_be_used(&self) -> bool {
        match &self.taken {
            SlotState::Nobody => self.may_load(),
            SlotState::By(_) => true,
            SlotState::Never => false,
        }
    }

    /// Loading takes time from others, so after an engine that did not last, only executors are used for a while.
    fn may_load(&self) -> bool {
        !self.modules.is_left_to_executors()
            && self
                .loaded_at
                .is_none_or(|loaded_at| loaded_at.elapsed() >= LOAD_PAUSE)
    }

    /// The current engine.
    pub(super) fn there(&self) -> Option<&Rc<Engine>> {
        match &self.taken {
            SlotState::By(engine) => Some(engine),
            SlotState::Nobody | SlotState::Never => None,
        }
    }

    /// Removes the engine, which gets no more calls.
    pub(super) fn replace(&mut self) {
        self.taken = SlotState::Nobody;
    }

    /// An engine that can take a call; created now if there is none.
    pub(super) fn engine(&mut self) -> Option<Rc<Engine>> {
        if self.there().is_some_and(|engine| !engine.is_fit()) {
            self.replace();
        }
        if let SlotState::Nobody = self.taken
            && self.may_load()
        {
            self.loaded_at = Some(Instant::now());
            let loaded = self.modules.check_io_load().and_then(|()| {
                let loaded = Instance::load(&self.options, &self.modules, self.place, Arc::default());
                loaded.map_err(|failure| failure.to_string())
            });
            self.taken = match loaded {
                Ok(instance) => SlotState::By(Rc::new(Engine {
                    options: self.options.clone(),
                    instance,
                    mail: CallInbox::default(),
                    is_retired: Cell::new(false),
                })),
                Err(reason) => {
                    if self.modules.leave_to_executors() {
                        tracing::info!(
                            target: "forebay::script",
                            script = self.options.name,
                            "answers on executors only: {reason}"
                        );
                    }
                    SlotState::Never
                }
            };
        }
        self.there().cloned()
    }
}
