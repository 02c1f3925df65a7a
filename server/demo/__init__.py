"""The demo's data: a script for the model, a folder of notes, and settings made where it is run."""

from .settings import GOAL, Demo, prepare_demo

__all__ = ["GOAL", "Demo", "prepare_demo"]
