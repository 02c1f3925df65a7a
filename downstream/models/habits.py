"""The name under which is remembered how a model is best asked."""

from importlib.metadata import distributions


def habit(model: str) -> str:
    """The model with the release of litellm that asks it: another release may ask it better."""
    versions = [each.version for each in distributions(name="litellm")]
    return f"{model} litellm {versions[0] if versions else 'absent'}"
