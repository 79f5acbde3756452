//! Figures that training loops print per step.
